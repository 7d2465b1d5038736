"""The declarative form of validations: small combinators over field paths (upstream: ``apimachinery/pkg/api/validate``).

A rule is any callable ``rule(value, path, errors, ctx)`` that appends FieldErrors to the list ``errors``; ``ctx`` is the
caller's argument for the outermost rule (a StrategyContext, options, or None).  Combinators make rules from rules and
evaluate them in the order of the source, so the order of a declaration is the order of the causes::

    PORT = struct(
        at("name", check(is_port_name)),                        # only when present (a Go pointer or an optional string)
        at("port", in_range(1, 65535), zero=0),                 # checked as 0 when absent (a Go value)
        required("protocol", then=enum("TCP", "UDP", "SCTP")),  # missing or empty: "Required value"
    )
    SPEC = struct(
        at("ports", each(PORT)),
        at("replicas", nonnegative, zero=0),
        unless_empty("selector", LABEL_SELECTOR),
        cross_field_check,                                      # a plain function with the same four arguments
    )

    errors: list[FieldError] = []
    SPEC(obj["spec"], Path("spec"), errors, None)

Rules are cheap: the combinators are closures, made once at import.  A rule may have an attribute ``ok``, a predicate on the
value; if it is true, the rule is not called and no path is made.  ``check``, ``enum`` and the ranges have it.  Message functions
return the error texts for a value, none when it is valid, as upstream's ``IsDNS1123Label``; ``names.py`` has cached ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeGuard, TypeVar

from kapi.machinery import field
from kapi.machinery.each import elements, entries
from kapi.machinery.field import FieldError, Path
from kapi.machinery.tree import Tree, equal

Value = TypeVar("Value")
Errors = list[FieldError]
Rule = Callable[[Tree, Path, Errors, Tree], None]
Messages = Callable[[Tree], Iterable[str]]
not_supported = field.not_supported
MIXED_CASE = "may have mixed case, but should otherwise match: "


def unless(ok: Callable[[Tree], object], rule: Rule) -> Rule:
    """The rule with a predicate for values for which it need not be called."""
    rule.ok = ok  # type: ignore[attr-defined]
    return rule


def _sequence(rules: tuple[Rule, ...]) -> Rule:
    if len(rules) == 1:
        return rules[0]

    def sequence(value: object, path: Path, errors: Errors, ctx: object) -> None:
        for rule in rules:
            rule(value, path, errors, ctx)

    oks = [getattr(rule, "ok", None) for rule in rules]
    if rules and all(oks):
        checks = tuple(ok for ok in oks if ok is not None)
        return unless(lambda value: all(ok(value) for ok in checks), sequence)
    return sequence


def struct(*rules: Rule) -> Rule:
    """Rules over one object, in order: ``at(...)``, ``required(...)`` and cross-field functions."""

    def validate(value: object, path: Path, errors: Errors, ctx: object) -> None:
        for rule in rules:
            rule(value, path, errors, ctx)

    return validate


def all_of(*rules: Rule) -> Rule:
    """Applies several rules to a value and reports all errors."""
    return _sequence(rules)


def first_of(*rules: Rule) -> Rule:
    """Applies several rules to a value, up to the first that reports an error."""

    def validate(value: object, path: Path, errors: Errors, ctx: object) -> None:
        before = len(errors)
        for rule in rules:
            rule(value, path, errors, ctx)
            if len(errors) > before:
                return

    return validate


def at(name: str, *rules: Rule, zero: Tree = None) -> Rule:
    """Applies rules to a field when it is present.  With ``zero``, an absent field counts as that value."""
    rule = _sequence(rules)
    ok = getattr(rule, "ok", None)
    part = "." + name

    if ok is not None:

        def leaf(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
            inner = value.get(name, zero)
            if inner is not None and not ok(inner):
                rule(inner, child(path, part), errors, ctx)

        return leaf

    def descend(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        inner = value.get(name, zero)
        if inner is not None:
            rule(inner, child(path, part), errors, ctx)

    return descend


def unless_empty(name: str, *rules: Rule) -> Rule:
    """Applies rules to a field when it is present and not "", 0, [] or {}."""
    rule = _sequence(rules)
    part = "." + name

    def descend(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        inner = value.get(name)
        if inner:
            rule(inner, child(path, part), errors, ctx)

    return descend


def required(name: str, detail: str = "", *, then: Rule | None = None) -> Rule:
    """``Required value`` when the field is missing or empty, else the rule ``then``.  False and 0 are values."""
    part = "." + name
    ok = getattr(then, "ok", None)

    def validate(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        inner = value.get(name)
        if inner is None or inner == "" or inner == [] or inner == {}:
            errors.append(field.required(child(path, part), detail))
        elif then is not None and not (ok is not None and ok(inner)):
            then(inner, child(path, part), errors, ctx)

    return validate


def each(rule: Rule) -> Rule:
    """Applies a rule to every element of a list, at ``path[i]``."""
    ok = getattr(rule, "ok", None)

    def validate(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        for i, item in enumerate(elements(value)):
            if ok is None or not ok(item):
                rule(item, Path(f"[{i}]", path), errors, ctx)

    return validate


def unique(key: Callable[[Tree], Tree], name: str = "") -> Rule:
    """``Duplicate value`` at ``path[i]`` (or ``path[i].name``) where ``key(element)`` was seen before; None is not compared."""

    def validate(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        seen = set()
        for i, item in enumerate(value):
            mark = key(item)
            if mark is None:
                continue
            if mark in seen:
                here = path.index(i)
                errors.append(field.duplicate(here.child(name) if name else here, mark))
            seen.add(mark)

    return validate


def check(messages: Messages, origin: str = "") -> Rule:
    """``Invalid value`` once per text of a message function."""

    def validate(value: object, path: Path, errors: Errors, ctx: object) -> None:
        for text in messages(value):
            errors.append(field.invalid(path, value, text, origin))

    return unless(lambda value: not messages(value), validate)


def holds(predicate: Callable[[Tree], bool], detail: str) -> Rule:
    """``Invalid value`` with this text if the predicate is false."""

    def validate(value: object, path: Path, errors: Errors, ctx: object) -> None:
        if not predicate(value):
            errors.append(field.invalid(path, value, detail))

    return unless(predicate, validate)


def enum(*values: str, in_order: bool = False) -> Rule:
    """``Unsupported value`` outside of the values; the text lists them sorted, or as given with ``in_order``."""
    allowed = frozenset(values)
    listed = values if in_order else tuple(sorted(values))

    def validate(value: object, path: Path, errors: Errors, ctx: object) -> None:
        if value not in allowed:
            errors.append(not_supported(path, value, listed))

    return unless(allowed.__contains__, validate)


def in_range(low: int, high: int) -> Rule:
    """``must be between 1 and 65535, inclusive``."""
    text = f"must be between {low} and {high}, inclusive"

    def validate(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        if not low <= value <= high:
            errors.append(field.invalid(path, value, text))

    return unless(lambda value: low <= value <= high, validate)


def minimum(low: int, detail: str = "") -> Rule:
    """``must be greater than or equal to N``."""
    text = detail or f"must be greater than or equal to {low}"

    def validate(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        if value < low:
            errors.append(field.invalid(path, value, text, "minimum"))

    return unless(lambda value: value >= low, validate)


nonnegative = minimum(0)
positive = minimum(1, "must be greater than 0")
#: the seconds for which a service account's token may be valid
TOKEN_SECONDS = all_of(
    holds(lambda seconds: seconds >= 600, "may not specify a duration less than 10 minutes"),
    holds(lambda seconds: seconds <= 1 << 32, "may not specify a duration larger than 2^32 seconds"),
)


def max_length(limit: int) -> Rule:
    """``Too long: may not be more than N bytes``."""

    def validate(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        if len(value.encode()) > limit:
            errors.append(field.too_long(path, limit))

    return unless(lambda value: len(value) * 4 <= limit, validate)


def max_items(limit: int) -> Rule:
    """``Too many: N: must have at most M items``."""

    def validate(value: Tree, path: Path, errors: Errors, ctx: object) -> None:
        if len(value) > limit:
            errors.append(field.too_many(path, len(value), limit))

    return unless(lambda value: len(value) <= limit, validate)


def need(value: Value | None, path: Path, errors: Errors, *below: str, detail: str = "") -> TypeGuard[Value]:
    """Whether there is a value; otherwise ``Required value`` at ``path``, or at the field ``below`` it."""
    if value:
        return True
    errors.append(field.required(path.child(*below) if below else path, detail))
    return False


def present(value: Value | None, path: Path, errors: Errors, *below: str, detail: str = "") -> TypeGuard[Value]:
    """``need`` for a field that may be empty, but not absent."""
    if value is not None:
        return True
    errors.append(field.required(path.child(*below) if below else path, detail))
    return False


def supported(value: object, listed: Collection[str], path: Path, errors: Errors, *below: str) -> None:
    """``Unsupported value`` for a value that is not listed."""
    if value not in listed:
        errors.append(not_supported(path.child(*below) if below else path, value, listed))


def report(texts: Iterable[str], value: object, path: Path, errors: Errors, *below: str) -> None:
    """``Invalid value`` once per text of a message function."""
    for text in texts:
        errors.append(field.invalid(path.child(*below) if below else path, value, text))


def report_once(
    texts: Iterable[str], value: object, path: Path, errors: Errors, *below: str, before: str = "", between: str = ","
) -> None:
    """``Invalid value`` with all texts of a message function in one error, after ``before``."""
    if text := between.join(texts):
        errors.append(field.invalid(path.child(*below) if below else path, value, before + text))


def distinct(value: Tree, seen: set[Tree], path: Path, errors: Errors, *below: str) -> None:
    """``Duplicate value`` for a value that was seen before; records the value."""
    if value in seen:
        errors.append(field.duplicate(path.child(*below) if below else path, value))
    seen.add(value)


def fits(length: int, limit: int, path: Path, errors: Errors, *below: str) -> None:
    """``Too long`` for a text with more bytes than the limit."""
    if length > limit:
        errors.append(field.too_long(path.child(*below) if below else path, limit))


def at_most(count: int, limit: int, path: Path, errors: Errors, *below: str) -> None:
    """``Too many`` for a list with more items than the limit."""
    if count > limit:
        errors.append(field.too_many(path.child(*below) if below else path, count, limit))


def child(path: Path, part: str) -> Path:
    """``Path.child`` for a part that already starts with its dot; below the empty path the dot is dropped."""
    return Path(part, path) if path.part or path.parent is not None else Path(part[1:], path)


def same(a: Tree, b: Tree) -> bool:
    """Upstream's semantic equality: absent, [] and {} are one value, and below them null and [] are."""
    return equal(a, b) or _is_empty(a) and _is_empty(b) or _alike(a, b)


def _is_empty(value: object) -> bool:
    return value is None or isinstance(value, (list, dict)) and not value


def _alike(a: Tree, b: Tree) -> bool:
    """Whether two values that are not equal only differ in lists that are empty or null, as fields without omitempty are."""
    pairs = [(a, b)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            pairs += [(item, other[key]) for key, item in entries(one)]
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pairs += elements(zip(one, other, strict=True))
        elif one != other and (one or other or {one.__class__, other.__class__} != {list, type(None)}):
            return False
    return True
