"""The standard functions, operators and conversions between types.

Upstream: cel-spec ``langdef.md``, List of Standard Definitions; cel-go ``common/types``, ``ConvertToType``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from datetime import timezone as fixed_zone
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from kapi.cel import types
from kapi.cel.arithmetic import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Uint,
    check_int,
    check_uint,
    divide_double,
    divide_int,
    divide_uint,
    modulo_int,
    modulo_uint,
    times_double,
)
from kapi.cel.errors import EvaluationError
from kapi.cel.functions import Overload, declare
from kapi.cel.times import NANOS, Duration, Timestamp
from kapi.cel.types import Value
from kapi.cel.values import NONE as NO_VALUE
from kapi.cel.values import (
    Optional,
    compare,
    equal,
    format_double,
    is_zero,
    key_text,
    no_overload,
    size,
    to_key,
    type_of,
)
from kapi.machinery.each import elements, entries
from kapi.machinery.regexps import compiled

#: up to 130,000 instructions, 0.2 s: users without rights in the cluster can also send expressions, in ResourceClaims
_MAX_PROGRAM_BYTES = 2 << 20


def compile_pattern(pattern: str) -> Any:
    """The compiled RE2 pattern.  Raises EvaluationError for an invalid one."""
    found = compiled(pattern, _MAX_PROGRAM_BYTES)
    if isinstance(found, str):
        raise EvaluationError(found)
    return found


def matches(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


# time


@lru_cache(256)
def _zone(name: str) -> Value:
    if ":" in name:
        sign = -1 if name.startswith("-") else 1
        hours, _, minutes = name.lstrip("+-").partition(":")
        if not (name.isascii() and hours.isdigit() and minutes.isdigit()):
            raise ValueError(name)
        return fixed_zone(sign * timedelta(hours=int(hours), minutes=int(minutes)))
    return ZoneInfo(name or "UTC")


def _accessor(read: Callable[[Value, Timestamp], int]) -> Callable[..., int]:
    def get(moment: Timestamp, zone: str = "UTC") -> int:
        local = moment.datetime()
        if zone != "UTC":
            try:
                local = local.astimezone(_zone(zone))
            except Exception:
                raise EvaluationError(f"unknown time zone {zone}") from None
        return read(local, moment)

    return get


_ACCESSORS: list[tuple[str, str, Callable[[Value, Timestamp], int]]] = [
    ("getFullYear", "year", lambda local, moment: local.year),
    ("getMonth", "month", lambda local, moment: local.month - 1),
    ("getDayOfYear", "day_of_year", lambda local, moment: local.timetuple().tm_yday - 1),
    ("getDayOfMonth", "day_of_month", lambda local, moment: local.day - 1),
    ("getDate", "day_of_month_1_based", lambda local, moment: local.day),
    ("getDayOfWeek", "day_of_week", lambda local, moment: (local.weekday() + 1) % 7),
    ("getHours", "hours", lambda local, moment: local.hour),
    ("getMinutes", "minutes", lambda local, moment: local.minute),
    ("getSeconds", "seconds", lambda local, moment: local.second),
    ("getMilliseconds", "milliseconds", lambda local, moment: moment.nanos // 1_000_000 % 1000),
]


def _truncated(nanos: int, unit: int) -> int:
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


def _compared(test: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def relation(one: object, other: object) -> bool:
        try:
            return test(compare(one, other))
        except EvaluationError:
            if isinstance(one, float) or isinstance(other, float):
                return False
            raise

    return relation


_RELATIONS = {
    "less": ("_<_", _compared(lambda order: order < 0)),
    "less_equals": ("_<=_", _compared(lambda order: order <= 0)),
    "greater": ("_>_", _compared(lambda order: order > 0)),
    "greater_equals": ("_>=_", _compared(lambda order: order >= 0)),
}
_ORDERED = {
    "bool": "bool",
    "int64": "int",
    "uint64": "uint",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "timestamp": "timestamp",
    "duration": "duration",
}


def _relations() -> list[Overload]:
    found: list[Overload] = []
    for word, (operator, impl) in _RELATIONS.items():
        for suffix, name in _ORDERED.items():
            found.append(declare(operator, f"{word}_{suffix}", f"({name}, {name}) bool", impl))
        for one in ("int64", "uint64", "double"):
            for other in ("int64", "uint64", "double"):
                if one != other:
                    found.append(
                        declare(operator, f"{word}_{one}_{other}", f"({_ORDERED[one]}, {_ORDERED[other]}) bool", impl)
                    )
    return found


def in_list(value: Value, items: Value) -> bool:
    return any(equal(value, item) for item in elements(items))


def in_map(value: Value, mapping: Value) -> bool:
    if isinstance(value, float):
        return any(not isinstance(key, str) and key == value for key in elements(mapping))
    try:
        return to_key(value) in mapping
    except (EvaluationError, TypeError):
        return False


def _map_insert(mapping: dict[Value, Value], key: object, value: object) -> dict[Value, Value]:
    kept = to_key(key)
    if kept in mapping:
        raise EvaluationError(f"insert failed: key {key_text(key)} already exists")
    result = dict(mapping)
    result[kept] = value
    return result


def _map_insert_map(mapping: dict[Value, Value], other: dict[Value, Value]) -> dict[Value, Value]:
    result = dict(mapping)
    for key, value in entries(other):
        if key in result:
            raise EvaluationError(f"insert failed: key {key_text(key)} already exists")
        result[key] = value
    return result


def _nothing(*args: object) -> Value:
    raise no_overload()


def _arithmetic() -> list[Overload]:
    """Overloads in upstream's order, since the first matching one determines a type parameter."""
    d = declare
    return [
        d("_+_", "add_bytes", "(bytes, bytes) bytes", lambda a, b: a + b),
        d("_+_", "add_double", "(double, double) double", lambda a, b: a + b),
        d("_+_", "add_duration_duration", "(duration, duration) duration", lambda a, b: Duration(a.nanos + b.nanos)),
        d("_+_", "add_duration_timestamp", "(duration, timestamp) timestamp", lambda a, b: b.moved(a.nanos)),
        d("_+_", "add_timestamp_duration", "(timestamp, duration) timestamp", lambda a, b: a.moved(b.nanos)),
        d("_+_", "add_int64", "(int, int) int", lambda a, b: check_int(a + b)),
        d("_+_", "add_list", "(list(A), list(A)) list(A)", lambda a, b: [*a, *b]),
        d("_+_", "add_string", "(string, string) string", lambda a, b: a + b),
        d("_+_", "add_uint64", "(uint, uint) uint", lambda a, b: check_uint(int(a) + int(b))),
        d("_-_", "subtract_double", "(double, double) double", lambda a, b: a - b),
        d(
            "_-_",
            "subtract_duration_duration",
            "(duration, duration) duration",
            lambda a, b: Duration(a.nanos - b.nanos),
        ),
        d("_-_", "subtract_int64", "(int, int) int", lambda a, b: check_int(a - b)),
        d("_-_", "subtract_timestamp_duration", "(timestamp, duration) timestamp", lambda a, b: a.moved(-b.nanos)),
        d(
            "_-_",
            "subtract_timestamp_timestamp",
            "(timestamp, timestamp) duration",
            lambda a, b: Duration(a.nanos - b.nanos),
        ),
        d("_-_", "subtract_uint64", "(uint, uint) uint", lambda a, b: check_uint(int(a) - int(b))),
        d("_*_", "multiply_double", "(double, double) double", times_double),
        d("_*_", "multiply_int64", "(int, int) int", lambda a, b: check_int(a * b)),
        d("_*_", "multiply_uint64", "(uint, uint) uint", lambda a, b: check_uint(int(a) * int(b))),
        d("_/_", "divide_double", "(double, double) double", divide_double),
        d("_/_", "divide_int64", "(int, int) int", divide_int),
        d("_/_", "divide_uint64", "(uint, uint) uint", divide_uint),
        d("_%_", "modulo_int64", "(int, int) int", modulo_int),
        d("_%_", "modulo_uint64", "(uint, uint) uint", modulo_uint),
        d("-_", "negate_double", "(double) double", lambda a: -a),
        d("-_", "negate_int64", "(int) int", lambda a: check_int(-a)),
        d("!_", "logical_not", "(bool) bool", lambda a: not a),
    ]


def _logic() -> list[Overload]:
    d = declare
    return [
        d("_&&_", "logical_and", "(bool, bool) bool", _nothing),
        d("_||_", "logical_or", "(bool, bool) bool", _nothing),
        d("_?_:_", "conditional", "(bool, A, A) A", _nothing),
        d("@not_strictly_false", "not_strictly_false", "(bool) bool", lambda a: a is not False),
        d("_==_", "equals", "(A, A) bool", equal),
        d("_!=_", "not_equals", "(A, A) bool", lambda a, b: not equal(a, b)),
        d("@in", "in_list", "(A, list(A)) bool", in_list),
        d("@in", "in_map", "(A, map(A, B)) bool", in_map),
        d("_[_]", "index_list", "(list(A), int) A", _nothing),
        d("_[_]", "index_map", "(map(A, B), A) B", _nothing),
        d("_[_]", "optional_list_index_value", "(optional(list(A)), int) optional(A)", _nothing),
        d("_[_]", "optional_map_index_value", "(optional(map(A, B)), A) optional(B)", _nothing),
        d("_[?_]", "list_optindex_optional_int", "(list(A), int) optional(A)", _nothing),
        d("_[?_]", "optional_list_optindex_optional_int", "(optional(list(A)), int) optional(A)", _nothing),
        d("_[?_]", "map_optindex_optional_value", "(map(A, B), A) optional(B)", _nothing),
        d("_[?_]", "optional_map_optindex_optional_value", "(optional(map(A, B)), A) optional(B)", _nothing),
        d("_?._", "select_optional_field", "(dyn, string) optional(dyn)", _nothing),
        d("cel.@mapInsert", "@mapInsert_map_key_value", "(map(A, B), A, B) map(A, B)", _map_insert),
        d("cel.@mapInsert", "@mapInsert_map_map", "(map(A, B), map(A, B)) map(A, B)", _map_insert_map),
    ]


def _strings() -> list[Overload]:
    d = declare
    found = [
        d("contains", "contains_string", "string.(string) bool", lambda a, b: b in a),
        d("startsWith", "starts_with_string", "string.(string) bool", lambda a, b: a.startswith(b)),
        d("endsWith", "ends_with_string", "string.(string) bool", lambda a, b: a.endswith(b)),
        d("matches", "matches", "(string, string) bool", matches),
        d("matches", "matches_string", "string.(string) bool", matches),
    ]
    for name in ("bytes", "list(A)", "map(A, B)", "string"):
        word = name.partition("(")[0]
        found.append(d("size", f"size_{word}", f"({name}) int", size))
        found.append(d("size", f"{word}_size", f"{name}.() int", size))
    for name, word, read in _ACCESSORS:
        get = _accessor(read)
        found.append(d(name, f"timestamp_to_{word}", "timestamp.() int", get))
        found.append(d(name, f"timestamp_to_{word}_with_tz", "timestamp.(string) int", get))
    found += [
        d("getHours", "duration_to_hours", "duration.() int", lambda a: _truncated(a.nanos, 3600 * NANOS)),
        d("getMinutes", "duration_to_minutes", "duration.() int", lambda a: _truncated(a.nanos, 60 * NANOS)),
        d("getSeconds", "duration_to_seconds", "duration.() int", lambda a: _truncated(a.nanos, NANOS)),
        d("getMilliseconds", "duration_to_milliseconds", "duration.() int", lambda a: _truncated(a.nanos, 1_000_000)),
    ]
    return found


def _unwrap(items: Value) -> list[Value]:
    return [item.value() for item in elements(items) if item.present]


def _optionals() -> list[Overload]:
    d = declare
    return [
        d("optional.of", "optional_of", "(A) optional(A)", Optional),
        d(
            "optional.ofNonZeroValue",
            "optional_ofNonZeroValue",
            "(A) optional(A)",
            lambda a: NO_VALUE if is_zero(a) else Optional(a),
        ),
        d("optional.none", "optional_none", "() optional(A)", lambda: NO_VALUE),
        d("optional.unwrap", "optional_unwrap", "(list(optional(A))) list(A)", _unwrap),
        d("unwrapOpt", "optional_unwrapOpt", "list(optional(A)).() list(A)", _unwrap),
        d("first", "list_first", "list(A).() optional(A)", lambda a: Optional(a[0]) if a else NO_VALUE),
        d("last", "list_last", "list(A).() optional(A)", lambda a: Optional(a[-1]) if a else NO_VALUE),
        d("value", "optional_value", "optional(A).() A", lambda a: a.value()),
        d("hasValue", "optional_hasValue", "optional(A).() bool", lambda a: a.present),
        d("or", "optional_or_optional", "optional(A).(optional(A)) optional(A)", lambda a, b: a if a.present else b),
        d("orValue", "optional_orValue_value", "optional(A).(A) A", lambda a, b: a.value() if a.present else b),
    ]


#: names of types, which are values
CONSTANTS: dict[str, tuple[types.CelType, Value]] = {}


def _constants() -> None:
    simple = (
        types.BOOL,
        types.INT,
        types.UINT,
        types.DOUBLE,
        types.STRING,
        types.BYTES,
        types.NULL,
        types.TIMESTAMP,
        types.DURATION,
        types.TYPE,
    )
    for type_ in simple:
        CONSTANTS[type_.name] = (types.type_of(type_), type_)
    for kind, params in (("list", (types.DYN,)), ("map", (types.DYN, types.DYN))):
        CONSTANTS[kind] = (types.type_of(types.CelType(kind, kind, params)), types.CelType(kind, kind))
    CONSTANTS["optional_type"] = (types.type_of(types.optional_of(types.DYN)), types.CelType("opaque", "optional_type"))


_constants()


#: the decimal forms that Go's ``strconv.ParseFloat`` takes, and those without digits
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_SPECIAL_DOUBLE = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE).fullmatch


def _int_of_double(value: float) -> int:
    if value != value or value >= 2**63 or value <= -(2**63):
        raise EvaluationError("integer overflow")
    return int(value)


def _digits(text: str, expected: str, least: int, greatest: int) -> int:
    body = text[1:] if text[:1] in "+-" else text
    if not body.isascii() or not body.isdigit() or len(body) > 40 or not least <= int(text) <= greatest:
        raise EvaluationError(f"type conversion error from 'string' to '{expected}'")
    return int(text)


def _uint_of_double(value: float) -> Uint:
    if value != value or value < 0 or value >= 2**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _uint_of_string(text: str) -> Uint:
    if text[:1] in ("+", "-"):
        raise EvaluationError("type conversion error from 'string' to 'uint'")
    return Uint(_digits(text, "uint", 0, UINT_MAX))


def _double_of_string(text: str) -> float:
    if _DECIMAL(text):
        value = float(text)
        if not math.isinf(value):
            return value
    elif _SPECIAL_DOUBLE(text):
        return float(text)
    raise EvaluationError("type conversion error from 'string' to 'double'")


def _bool_of_string(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise EvaluationError("type conversion error from 'string' to 'bool'")


def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def timestamp_of(text: str) -> Timestamp:
    try:
        return Timestamp.parse(text)
    except (ValueError, OverflowError):
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'") from None


def duration_of(text: str) -> Duration:
    try:
        return Duration.parse(text)
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'") from None


def _no_duration(value: int) -> Duration:
    """Raises the error of a declared overload without an implementation."""
    raise EvaluationError("type conversion error from 'int' to 'google.protobuf.Duration'")


def conversions() -> list[Overload]:
    d = declare

    def same(value: object) -> Value:
        return value

    return [
        d("int", "int64_to_int64", "(int) int", same),
        d("int", "double_to_int64", "(double) int", _int_of_double),
        d("int", "duration_to_int64", "(duration) int", lambda a: a.nanos),
        d("int", "string_to_int64", "(string) int", lambda text: _digits(text, "int", INT_MIN, INT_MAX)),
        d("int", "timestamp_to_int64", "(timestamp) int", lambda a: a.nanos // NANOS),
        d("int", "uint64_to_int64", "(uint) int", lambda a: check_int(int(a))),
        d("uint", "uint64_to_uint64", "(uint) uint", same),
        d("uint", "double_to_uint64", "(double) uint", _uint_of_double),
        d("uint", "int64_to_uint64", "(int) uint", check_uint),
        d("uint", "string_to_uint64", "(string) uint", _uint_of_string),
        d("double", "double_to_double", "(double) double", same),
        d("double", "int64_to_double", "(int) double", float),
        d("double", "string_to_double", "(string) double", _double_of_string),
        d("double", "uint64_to_double", "(uint) double", float),
        d("bool", "bool_to_bool", "(bool) bool", same),
        d("bool", "string_to_bool", "(string) bool", _bool_of_string),
        d("string", "string_to_string", "(string) string", same),
        d("string", "bool_to_string", "(bool) string", lambda a: "true" if a else "false"),
        d("string", "bytes_to_string", "(bytes) string", _string_of_bytes),
        d("string", "double_to_string", "(double) string", format_double),
        d("string", "duration_to_string", "(duration) string", str),
        d("string", "int64_to_string", "(int) string", lambda a: str(int(a))),
        d("string", "timestamp_to_string", "(timestamp) string", str),
        d("string", "uint64_to_string", "(uint) string", lambda a: str(int(a))),
        d("bytes", "bytes_to_bytes", "(bytes) bytes", same),
        d("bytes", "string_to_bytes", "(string) bytes", lambda a: a.encode("utf-8", "surrogatepass")),
        d("timestamp", "timestamp_to_timestamp", "(timestamp) timestamp", same),
        d("timestamp", "int64_to_timestamp", "(int) timestamp", lambda a: Timestamp(a * NANOS)),
        d("timestamp", "string_to_timestamp", "(string) timestamp", timestamp_of),
        d("duration", "duration_to_duration", "(duration) duration", same),
        d("duration", "string_to_duration", "(string) duration", duration_of),
        d("duration", "int64_to_duration", "(int) duration", _no_duration),
        d("dyn", "to_dyn", "(A) dyn", same),
        d("type", "type", "(A) type(A)", type_of),
    ]


STANDARD: list[Overload] = [*_logic(), *_arithmetic(), *_relations(), *conversions(), *_strings(), *_optionals()]
