"""Rules for devices in claims, classes and slices (upstream: ``pkg/apis/resource/validation``)."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import orjson

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, duplicate, forbidden, invalid, required, too_long, too_many
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared.features import gate
from kapi.resources.shared.metadata import validate_label_name
from kapi.resources.shared.names import is_c_identifier, is_dns1123_label, is_dns1123_subdomain, is_label_value
from kapi.resources.shared.rules import Errors, fits, need, not_supported, report, supported
from kapi.resources.shared.volume_sources import validate_csi_driver_name

Item = Callable[[Tree, Path], None]
SELECTORS = REQUESTS = CONSTRAINTS = CONFIGS = 32
_MAX_PARAMETER_BYTES = 10 * 1024
_MAX_EXPRESSION_BYTES = 10 * 1024
_MAX_CONDITIONS = 4
_MAX_POOL_NAME = 253
_MAX_IDENTIFIER = 32
_EFFECTS = ("NoExecute", "NoSchedule", "None")


def check_list(items: list[Tree], limit: int, item: Item, path: Path, errors: Errors) -> bool:
    """Applies a rule to every item, unless there are too many.  Returns whether it did.  A negative limit means no limit."""
    if 0 <= limit < len(items):
        errors.append(too_many(path, len(items), limit))
        return False
    for value, here in each_of(path, items):
        item(value, here)
    return True


def check_set(
    items: list[Tree],
    limit: int,
    item: Item,
    key: Callable[[Tree], Hashable],
    path: Path,
    errors: Errors,
    show: Callable[[Tree], Tree] | None = None,
) -> None:
    """``check_list`` for items with different keys; ``show`` returns the value in the error, by default the key."""
    if not check_list(items, limit, item, path, errors):
        return
    seen: set[Hashable] = set()
    for value, here in each_of(path, items):
        if key(value) in seen:
            errors.append(duplicate(here, key(value) if show is None else show(value)))
        seen.add(key(value))


def check_label(name: str, path: Path, errors: Errors) -> None:
    report(is_dns1123_label(name), name, path, errors)


def check_driver(name: str, path: Path, errors: Errors) -> None:
    validate_csi_driver_name(name, path, errors)


def check_pool(name: str, path: Path, errors: Errors) -> None:
    if not name:
        errors.append(required(path))
        return
    fits(len(name), _MAX_POOL_NAME, path, errors)
    for part in name.split("/"):
        report(is_dns1123_subdomain(part), part, path, errors)


def check_qualified_name(name: str, path: Path, errors: Errors) -> None:
    """``identifier`` or ``domain/identifier``."""
    parts = name.split("/")
    if len(parts) > 2:
        return  # upstream does not check such names
    if len(parts) == 2:
        if not parts[0]:
            errors.append(invalid(path, "", "the domain must not be empty"))
        else:
            check_driver(parts[0], path, errors)
        if not parts[1]:
            errors.append(invalid(path, "", "the name must not be empty"))
            return
    identifier = parts[-1]
    fits(len(identifier), _MAX_IDENTIFIER, path, errors)
    report(is_c_identifier(identifier), identifier, path, errors)


def check_full_name(name: str, path: Path, errors: Errors) -> None:
    check_qualified_name(name, path, errors)
    if "/" not in name:
        errors.append(invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))


def check_selectors(selectors: list[Object], path: Path, errors: Errors, ctx: object, *, stored: bool) -> None:
    """``stored``: the expressions were there before, and may use what needs a gate that is off now."""

    def selector(value: Object, here: Path) -> None:
        expression = value.get("cel")
        if expression is None:
            errors.append(required(here.child("cel")))
            return
        text, place = expression.get("expression", ""), here.child("cel", "expression")
        if len(text.encode()) > _MAX_EXPRESSION_BYTES:
            errors.append(too_long(place, _MAX_EXPRESSION_BYTES))
            return
        from kapi.resources.resource.expressions import check_expression  # imported only when it is used

        shared, lists = gate(ctx, "DRAConsumableCapacity"), gate(ctx, "DRAListTypeAttributes")
        problem, costly = check_expression(text, shared, lists, stored)
        if problem:
            errors.append(invalid(place, text, problem))
        elif costly:
            errors.append(forbidden(place, "too complex, exceeds cost limit"))

    check_list(selectors, SELECTORS, selector, path, errors)


def check_configuration(config: Object, path: Path, errors: Errors) -> None:
    opaque, here = config.get("opaque"), path.child("opaque")
    if opaque is None:
        errors.append(required(here))
        return
    check_driver(opaque.get("driver", ""), here.child("driver"), errors)
    check_raw(opaque.get("parameters"), here.child("parameters"), _MAX_PARAMETER_BYTES, errors)


def check_raw(value: object, path: Path, limit: int, errors: Errors) -> None:
    """A raw object, of any kind."""
    if value is None:
        errors.append(required(path))
    elif len(orjson.dumps(value)) > limit:
        errors.append(too_long(path, limit))
    elif not isinstance(value, dict):
        errors.append(invalid(path, "<value omitted>", "must be a valid JSON object"))


def check_taint(taint: Object, path: Path, errors: Errors, known: str | None = None) -> None:
    """``known`` is the stored effect, which may stay."""
    validate_label_name(taint.get("key", ""), path.child("key"), errors)
    value, effect = taint.get("value", ""), taint.get("effect", "")
    report(is_label_value(value) if value else (), value, path, errors, "value")
    if effect == known:
        return
    if need(effect, path, errors, "effect"):
        supported(effect, _EFFECTS, path, errors, "effect")


def check_toleration(toleration: Object, path: Path, errors: Errors) -> None:
    key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
    if key:
        validate_label_name(key, path.child("key"), errors)
    if operator == "Exists":
        if value:
            errors.append(invalid(path.child("value"), value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        report(is_label_value(value), value, path, errors, "value")
    else:  # otherwise defaults have set it
        errors.append(not_supported(path.child("operator"), operator, ("Equal", "Exists")))
    effect = toleration.get("effect", "")
    if effect and effect not in _EFFECTS:
        errors.append(not_supported(path.child("effect"), effect, _EFFECTS))


def check_binding_conditions(obj: Object, path: Path, errors: Errors) -> None:
    """``bindingConditions`` and ``bindingFailureConditions``: both or neither must be set, without duplicates."""
    good, bad = obj.get("bindingConditions") or [], obj.get("bindingFailureConditions") or []
    good_path, bad_path = path.child("bindingConditions"), path.child("bindingFailureConditions")
    for names, here in ((good, good_path), (bad, bad_path)):
        check_list(names, _MAX_CONDITIONS, lambda name, place: validate_label_name(name, place, errors), here, errors)
    known: set[str] = set()
    for i, name in enumerate(elements(good)):
        if name in known:
            errors.append(duplicate(good_path.index(i), name))
        known.add(name)
    failing: set[str] = set()
    for i, name in enumerate(elements(bad)):
        if name in failing:
            errors.append(duplicate(bad_path.index(i), name))
        failing.add(name)
        if name in known:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(bad_path.index(i), name, detail))
    if bad and not good:
        detail = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(good_path, obj.get("bindingConditions"), detail))
    if good and not bad:
        detail = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid(bad_path, obj.get("bindingFailureConditions"), detail))
