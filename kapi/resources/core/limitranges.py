"""LimitRange (v1).

Upstream: ``pkg/apis/core/validation``: ValidateLimitRange; ``pkg/registry/core/limitrange``."""

from __future__ import annotations

import uuid

from kapi.machinery.each import each_of, elements, entries
from kapi.machinery.field import FieldError, Path, forbidden, invalid, required
from kapi.machinery.quantities import ceiling, compare, milli
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared.names import is_label_key
from kapi.resources.shared.resource_names import (
    check_container_resource_name,
    check_resource_name,
    is_overcommit_allowed,
    round_resource_list,
)
from kapi.resources.shared.rules import Errors, distinct, report
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_LIMITS = Path("spec").child("limits")
_LISTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_MAX_MILLI = (2**63 - 1) // 1000


def _merged(*amounts: Object | None) -> Object:
    """All amounts by name; the last one counts."""
    return {name: amount for part in amounts for name, amount in entries(part)}


def _default_item(item: Object) -> None:
    for name in _LISTS:
        round_resource_list(item.get(name))
    if item.get("type") != "Container":
        return
    default = _merged(item.get("max"), item.get("default"))
    request = _merged(item.get("min"), default, item.get("defaultRequest"))
    for name, values in (("default", default), ("defaultRequest", request)):
        if values:
            item[name] = values


def _type(kind: str, path: Path, errors: Errors) -> None:
    problems = is_label_key(kind)
    report(problems, kind, path, errors)
    if not problems and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))


def _item(item: Object, path: Path, errors: Errors) -> None:
    kind = item.get("type") or ""
    name_rule = check_container_resource_name if kind in ("Pod", "Container") else check_resource_name
    values = {name: item.get(name) or {} for name in _LISTS}
    keys: dict[str, None] = {}  # in order
    for name in _LISTS:
        if kind == "Pod" and name in ("default", "defaultRequest"):
            if values[name]:
                errors.append(forbidden(path.child(name), "may not be specified when `type` is 'Pod'"))
            values[name] = {}
        unbounded = "storage" not in values["min"] and "storage" not in values["max"]
        if name == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim" and unbounded:
            detail = "either minimum or maximum storage value is required, but neither was provided"
            errors.append(required(path.child("limits"), detail))
        for key in elements(values[name]):
            errors += name_rule(key, path.child(name).key(key))
            keys[key] = None
    for key in elements(keys):
        errors += _compared(key, {name: values[name].get(key) for name in _LISTS}, path)


def _compared(key: str, of: dict[str, str | None], path: Path) -> list[FieldError]:
    """Compares the limits of one resource."""
    low, high, default, request, ratio = of["min"], of["max"], of["default"], of["defaultRequest"], of[_LISTS[4]]
    errors: list[FieldError] = []

    def ordered(a: str | None, b: str | None, field: str, shown: str | None, names: tuple[str, str]) -> None:
        if a is not None and b is not None and compare(a, b) > 0:
            detail = f"{names[0]} value {a} is greater than {names[1]} value {b}"
            errors.append(invalid(path.child(field).key(key), shown, detail))

    ordered(low, high, "min", low, ("min", "max"))
    ordered(low, request, "defaultRequest", request, ("min", "default request"))
    ordered(request, high, "defaultRequest", request, ("default request", "max"))
    ordered(request, default, "defaultRequest", request, ("default request", "default limit"))
    ordered(low, default, "default", low, ("min", "default"))
    ordered(default, high, "default", high, ("default", "max"))
    if ratio is not None:
        here = path.child("maxLimitRequestRatio").key(key)
        if compare(ratio, "1") < 0:
            errors.append(invalid(here, ratio, f"ratio {ratio} is less than 1"))
        if low is not None and high is not None:
            bound = _ratio(ratio, low, high)
            if bound is not None:
                errors.append(invalid(here, ratio, f"ratio {ratio} is greater than max/min = {bound}"))
    if not is_overcommit_allowed(key) and default is not None and request is not None and compare(default, request):
        detail = f"default value {default} must equal to defaultRequest value {request} in {key}"
        errors.append(invalid(path.child("defaultRequest").key(key), request, detail))
    return errors


def _ratio(ratio: str, low: str, high: str) -> str | None:
    """The text of max/min in upstream's form, when the ratio exceeds it."""
    value, bottom, top = float(ceiling(ratio)), ceiling(low), ceiling(high)
    if value < _MAX_MILLI and bottom < _MAX_MILLI and top < _MAX_MILLI:
        value, bottom, top = milli(ratio) / 1000, milli(low), milli(high)
    if bottom == 0:
        return None
    limit = top / bottom
    return f"{limit:f}" if value > limit else None


class LimitRangeStrategy(PlainStrategy):
    allow_create_on_update = True
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def default(self, obj: Object) -> None:
        for item in elements(obj, "spec", "limits"):
            _default_item(item)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if old is None and not obj["metadata"].get("name"):
            obj["metadata"]["name"] = str(uuid.uuid4())

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        seen: set[str] = set()
        for item, here in each_of(_LIMITS, (obj.get("spec") or {}).get("limits")):
            path, kind = here, item.get("type") or ""
            _type(kind, path.child("type"), errors)
            distinct(kind, seen, path, errors, "type")
            _item(item, path, errors)


RESOURCE = Resource(*type_meta("v1", "LimitRange"), short_names=("limits",), strategy=LimitRangeStrategy())
