"""Validation of a value by the OpenAPI keywords of its schema.

On an update, errors of a part that is equal to the correlated part of the old object are dropped (ratcheting).
Upstream: kube-openapi ``validation/validate``, apiextensions ``validation/ratcheting.go``, KEP-4008.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable

from kapi.cel.errors import TimeExceeded
from kapi.cel.values import format_double
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements, entries
from kapi.machinery.field import ErrorType, FieldError, Path, invalid, required, too_long, too_many, type_invalid
from kapi.machinery.go_json import json_text, sorted_fields
from kapi.machinery.golang import json_integer, quote
from kapi.machinery.regexps import matches, pattern_error
from kapi.machinery.tree import Object, Tree
from kapi.schema.structural import formats
from kapi.schema.structural.correlation import ABSENT, identity, is_unchanged, old_item, old_items, same
from kapi.schema.structural.structure import Schema

NO_PATH = "<nil>"
_CHECKS_PER_CHECKPOINT = 64
_MAX_SCANNED_ENUM = 16  # values of an enum; more are looked up in a set
_MAX_EXACT, _EPSILON = (1 << 53) - 1, 1e-9  # upstream's limits for quotients that count as whole
_TYPE_META = frozenset(("apiVersion", "kind", "metadata"))
_FLOAT_MAX = 3.4028235677973366e38  # beyond it a float64 rounds to no float32


class Result:
    """The errors of a value, and how many checks passed: anyOf reports the alternative with the most.

    ``mistyped``: whether there is an error of a wrong type.
    """

    __slots__ = ("errors", "matched", "mistyped")

    def __init__(self) -> None:
        self.errors: builtins.list[FieldError] = []
        self.matched = 0
        self.mistyped = False

    def merge(self, other: Result) -> None:
        self.errors.extend(other.errors)
        self.matched += other.matched
        self.mistyped = self.mistyped or other.mistyped


def value_errors(
    value: object,
    schema: Schema | None,
    base: Path | None = None,
    old: object = ABSENT,
    seconds: float = 0.0,
    either: bool = True,
    mistyped: Callable[[], None] | None = None,
) -> builtins.list[FieldError]:
    """The errors of a value, each once; ``base`` is the path fields are reported under, ``old`` the value before an update.

    ``either``: whether an int-or-string is checked to be one of the two, which a default is not.
    ``mistyped`` is called when the old value has a part of a wrong type, which may stay as long as it is unchanged.
    Raises TimeExceeded after ``seconds`` (0: no limit).
    """
    if schema is None:
        return []
    walk = _Validator("" if base is None else str(base), seconds, either)
    errors = walk.check(value, schema, "", old).errors
    if walk.mistyped and mistyped is not None:
        mistyped()
    return list({str(error): error for error in errors}.values()) if len(errors) > 1 else errors


class _Validator:
    def __init__(self, base: str, seconds: float, either: bool) -> None:
        self.base = base
        self.either = either
        self.deadline = time.monotonic() + seconds if seconds else 0.0
        self.checks = 0
        self.mistyped = False  # whether the old value has a part of a wrong type
        #: by the id of a long enum: its values to look up, their types, and the text of an error
        self.enums: dict[int, tuple[frozenset[Tree], frozenset[type], str]] = {}

    def field(self, path: str) -> str:
        name = path.removeprefix(".")
        if not name:
            return self.base or NO_PATH
        return f"{self.base}.{name}" if self.base else name

    def format(self, schema: Schema) -> str:
        """The format.  Upstream drops formats that are unknown for the type, except in a schema that checks a default."""
        format_ = schema.get("format") or ""
        return format_ if not self.either or format_ and formats.recognized(format_, schema.get("type") or "") else ""

    def fault(self, out: Result, path: str, value: object, text: str) -> None:
        out.errors.append(invalid(self.field(path), value, text))

    def general(self, out: Result, text: str) -> None:
        out.errors.append(invalid(self.base or NO_PATH, "", text))

    def check(self, value: object, schema: Schema, path: str, old: object) -> Result:
        self.checks += 1
        if not self.checks % _CHECKS_PER_CHECKPOINT:
            checkpoint()
            if self.deadline and time.monotonic() > self.deadline:
                raise TimeExceeded()
        out = self.all(value, schema, path, old)
        if old is ABSENT:
            return out
        if out.errors and is_unchanged(value, old, schema):
            self.mistyped = self.mistyped or out.mistyped
            out.errors = []
        elif old.__class__ is not value.__class__ and not self.mistyped:
            before = Result()
            self.type(before, old, schema, path)
            self.mistyped = before.mistyped
        return out

    def all(self, value: object, schema: Schema, path: str, old: object) -> Result:
        out = Result()
        self.type(out, value, schema, path)
        if value is None:
            self.enum(out, value, schema, path)
            return out
        self.combined(out, value, schema, path, old)
        if isinstance(value, str):
            self.text(out, value, schema, path)
        elif isinstance(value, bool):
            pass
        elif isinstance(value, (int, float)):
            self.number(out, value, schema, path)
        elif isinstance(value, list):
            self.list(out, value, schema, path, old)
        self.enum(out, value, schema, path)
        if isinstance(value, dict):
            self.object(out, value, schema, path, old)
        out.matched += 3
        return out

    def type(self, out: Result, value: object, schema: Schema, path: str) -> None:
        expected = _types(schema)
        if not self.either and schema.get("x-kubernetes-int-or-string"):
            expected = []
        out.matched += 1
        if value is None:
            if expected and "null" not in expected and not schema.get("nullable"):
                self.wrong_type(out, path, ",".join(expected), "null")
            return
        if not expected:
            return
        kind, shape = _kind(value)
        format_ = self.format(schema)
        numeric = "number" in expected or "integer" in expected
        whole = isinstance(value, float) and _is_whole(value) and "integer" in expected
        widened = kind == "integer" and "number" in expected
        textual = kind in ("string", "array")
        if format_ and not textual and not (kind in expected or shape == format_ or whole or widened):
            self.wrong_type(out, path, format_, shape)
            return
        if not numeric and format_ and textual:
            return
        if not (kind in expected or whole or widened):
            self.wrong_type(out, path, ",".join(expected), kind)

    def wrong_type(self, out: Result, path: str, expected: str, found: str) -> None:
        out.mistyped = True
        out.errors.append(
            type_invalid(self.field(path), found, f"{path} in body must be of type {expected}: {quote(found)}")
        )

    def enum(self, out: Result, value: object, schema: Schema, path: str) -> None:
        allowed = schema.get("enum")
        if not allowed:
            return
        if value is None:  # null equals no value of an enum in upstream
            out.errors.append(_unsupported(self.field(path), value, _supported(allowed)))
            return
        if len(allowed) <= _MAX_SCANNED_ENUM:
            if not any(same(value, item) or _converted(value, item.__class__) == item for item in allowed):
                out.errors.append(_unsupported(self.field(path), value, _supported(allowed)))
            return
        known = self.enums.get(id(allowed))
        if known is None:
            kinds = frozenset(item.__class__ for item in elements(allowed))
            known = self.enums[id(allowed)] = (frozenset(map(identity, elements(allowed))), kinds, _supported(allowed))
        values, kinds, text = known
        if identity(value) not in values and not any(_converted(value, kind) in values for kind in kinds):
            out.errors.append(_unsupported(self.field(path), value, text))

    def text(self, out: Result, value: str, schema: Schema, path: str) -> None:
        longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
        if longest is not None and len(value) > longest:
            out.errors.append(too_long(self.field(path), longest))
        elif shortest is not None and len(value) < shortest:
            self.fault(out, path, value, f"{path} in body should be at least {shortest} chars long")
        elif pattern and not matches(pattern, value):
            problem = pattern_error(pattern)
            shown = f"{pattern}, but pattern is invalid: {problem}" if problem else pattern
            self.fault(out, path, value, f"{path} in body should match '{shown}'")
        format_ = self.format(schema)
        if format_ and "integer" not in _types(schema) and not formats.valid(format_, value):
            out.errors.append(
                type_invalid(self.field(path), value, f"{path} in body must be of type {format_}: {quote(value)}")
            )

    def number(self, out: Result, value: float, schema: Schema, path: str) -> None:
        self.within(out, "Checked", value, schema, path)
        factor = schema.get("multipleOf")
        if factor is not None:
            if self.within(out, "MultipleOf", factor, schema, path):
                factor = _bound(factor, value)
            if factor <= 0:
                self.fault(
                    out, path, factor, f"factor MultipleOf declared for {path} must be positive: {_number_text(factor)}"
                )
            elif not _multiple(value, factor):
                self.fault(out, path, value, f"{path} in body should be a multiple of {_number_text(factor)}")
        least, most = schema.get("minimum"), schema.get("maximum")
        if least is not None:
            if self.within(out, "Minimum boundary", least, schema, path):
                least = _bound(least, value)
            if schema.get("exclusiveMinimum"):
                if value <= least:
                    self.fault(out, path, value, f"{path} in body should be greater than {_number_text(least)}")
            elif value < least:
                self.fault(out, path, value, f"{path} in body should be greater than or equal to {_number_text(least)}")
        if most is not None:
            if self.within(out, "Maximum boundary", most, schema, path):
                most = _bound(most, value)
            if schema.get("exclusiveMaximum"):
                if value >= most:
                    self.fault(out, path, value, f"{path} in body should be less than {_number_text(most)}")
            elif value > most:
                self.fault(out, path, value, f"{path} in body should be less than or equal to {_number_text(most)}")
        out.matched += 1

    def within(self, out: Result, what: str, value: float, schema: Schema, path: str) -> bool:
        """Whether a number fits the type and format: int32, int64, float."""
        kind, format_ = schema.get("type"), schema.get("format")
        if kind == "integer":
            low, high = (-(2**31), 2**31 - 1) if format_ == "int32" else (-(2**63), 2**63 - 1)
            # upstream parses the text of a float, which beyond 2^53 has other digits
            number = value if isinstance(value, int) or not value.is_integer() else json_integer(value)
            if low <= number <= high and number == int(number):
                return True
            how = f"with format {format_}" if format_ in ("int32", "int64") else "(default format)"
        elif kind == "number" and format_ == "float" and abs(value) > _FLOAT_MAX:
            how = "with format float"
        else:
            return True
        self.general(out, f"{what} value must be of type {kind} {how} in {path}")
        return False

    def list(self, out: Result, value: builtins.list[Tree], schema: Schema, path: str, old: object) -> None:
        items = schema.get("items")
        if isinstance(items, dict):
            before = old_items(old, schema)
            for index, item in enumerate(value):
                out.merge(self.check(item, items, f"{path}[{index}]", old_item(before, schema, item)))
        least, most = schema.get("minItems"), schema.get("maxItems")
        if least is not None and len(value) < least:
            self.fault(out, path, len(value), f"{path} in body should have at least {least} items")
        if most is not None and len(value) > most:
            out.errors.append(too_many(self.field(path), len(value), most))
        if schema.get("uniqueItems") and len(set(map(identity, elements(value)))) < len(value):
            self.fault(out, path, "", f"{path} in body shouldn't contain duplicates")
        out.matched += 1

    def object(self, out: Result, value: Object, schema: Schema, path: str, old: object) -> None:
        least, most = schema.get("minProperties"), schema.get("maxProperties")
        if least is not None and len(value) < least:
            self.fault(out, path, len(value), f"{path} in body should have at least {least} properties")
        if most is not None and len(value) > most:
            out.errors.append(too_many(self.field(path), len(value), most))
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        if (
            before and not path and not self.base
        ):  # both objects are converted to one version, so a change does not show
            before = {name: item for name, item in before.items() if name not in _TYPE_META}
        if extra is False:
            for name in elements(value):
                if name not in properties:
                    self.fault(out, path, name, f"{path}.{name} in body is a forbidden property")
        elif isinstance(extra, dict):
            for name, item in value.items():
                if name not in properties:
                    out.merge(self.check(item, extra, f"{path}.{name}", before.get(name, ABSENT)))
        for name, field in entries(properties):
            if name in value:
                below = f"{path}.{name}" if path else name
                out.merge(self.check(value[name], field, below, before.get(name, ABSENT)))
        for name in elements(schema, "required"):
            if name not in value:
                out.errors.append(required(self.field(f"{path}.{name}")))

    def combined(self, out: Result, value: Tree, schema: Schema, path: str, old: Tree) -> None:
        any_of = schema.get("anyOf")
        if any_of:
            self.any_of(out, value, any_of, path, old)
        one_of = schema.get("oneOf")
        if one_of:
            self.one_of(out, value, one_of, path, old)
        all_of = schema.get("allOf")
        if all_of:
            good = 0
            for part in all_of:
                result = self.check(value, part, path, old)
                good += not result.errors
                out.merge(result)
            if good != len(all_of):
                extra = "" if good else ". None validated"
                self.general(out, f"{quote(path)} must validate all the schemas (allOf){extra}")
        negated = schema.get("not")
        if isinstance(negated, dict) and not self.check(value, negated, path, ABSENT).errors:
            self.general(out, f"{quote(path)} must not validate the schema (not)")

    def any_of(self, out: Result, value: Tree, parts: builtins.list[Schema], path: str, old: Tree) -> None:
        best: Result | None = None
        for part in parts:
            result = self.check(value, part, path, old)
            if not result.errors:
                out.merge(result)
                return
            if best is None or result.matched > best.matched:
                best = result
        self.general(out, f"{quote(path)} must validate at least one schema (anyOf)")
        if best is not None:
            out.merge(best)

    def one_of(self, out: Result, value: Tree, parts: builtins.list[Schema], path: str, old: Tree) -> None:
        good, best = 0, None
        for part in parts:
            result = self.check(value, part, path, old)
            if not result.errors:
                good += 1
                best = None
            elif not good and (best is None or result.matched > best.matched):
                best = result
        if good == 1:
            return
        found = f"Found {good} valid alternatives" if good else "Found none valid"
        self.general(out, f"{quote(path)} must validate one and only one schema (oneOf). {found}")
        if best is not None:
            out.merge(best)


def _types(schema: Schema) -> builtins.list[str]:
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    type_ = schema.get("type")
    return [type_] if type_ else []


def _kind(value: object) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, int):
        return "integer", "int64"
    if isinstance(value, float):
        return "number", "float64"
    if isinstance(value, str):
        return "string", ""
    if isinstance(value, list):
        return "array", ""
    return "object", ""


def _bound(bound: float, value: float) -> float:
    """Upstream's bound for a number: for an integer without the fraction."""
    return int(bound) if isinstance(value, int) else bound


def _is_whole(value: float) -> bool:
    """Whether upstream takes a float for an integer: within 53 bits, and whole but for a rounding error of a positive value."""
    if not abs(value) <= _MAX_EXACT:  # NaN: nothing by a factor whose reciprocal is infinite
        return False
    whole = float(int(value))
    return value == whole or whole > 0 and (value - whole) / (value + whole) < _EPSILON


def _multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and float(factor).is_integer():
        return value % int(factor) == 0
    quotient = value / factor if factor >= 1 else 1 / factor * value
    return _is_whole(quotient)


def _number_text(number: float) -> str:
    return format_double(float(number))


def _converted(value: Tree, kind: builtins.type) -> Tree:
    """A number as upstream converts it to the type of an enum's value: cut to an integer, or a character by its code.

    ABSENT for what cannot be converted, or need not be.
    """
    if kind is int and isinstance(value, float):
        return int(value) if abs(value) < 2**63 else -(2**63)  # what amd64 makes of a float that is too large
    if kind is str and value.__class__ is int:
        return chr(value) if 0 <= value < 0x110000 and not 0xD800 <= value < 0xE000 else "\ufffd"
    return ABSENT


def _unsupported(path: str, value: Tree, detail: str) -> FieldError:
    return FieldError(ErrorType.NOT_SUPPORTED, path, sorted_fields(value), detail)


def _supported(allowed: list[Tree]) -> str:
    """The detail of an error, with the values in the order of the schema."""
    texts = (item if isinstance(item, str) else json_text(item) for item in elements(allowed))
    return "supported values: " + ", ".join(map(quote, texts))
