"""The conversions between types (upstream: cel-go ``common/types``, ``ConvertToType``)."""

from __future__ import annotations

import math
import re

from kapi.cel.arithmetic import Uint, check_int, check_uint
from kapi.cel.errors import EvaluationError
from kapi.cel.functions import Overload, declare
from kapi.cel.times import NANOS, Duration, Timestamp
from kapi.cel.types import Value
from kapi.cel.values import format_double, type_of

#: the decimal forms that Go's ``strconv.ParseFloat`` takes, and those without digits
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_SPECIAL_DOUBLE = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE).fullmatch


def _int_of_double(value: float) -> int:
    if value != value or value >= 2**63 or value <= -(2**63):
        raise EvaluationError("integer overflow")
    return int(value)


def _int_of_string(text: str) -> int:
    return check_int(_digits(text, "int"))


def _digits(text: str, expected: str) -> int:
    body = text[1:] if text[:1] in "+-" else text
    if not body.isascii() or not body.isdigit() or len(body) > 40:
        raise EvaluationError(f"type conversion error from 'string' to '{expected}'")
    return int(text)


def _uint_of_double(value: float) -> Uint:
    if value != value or value < 0 or value >= 2**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _uint_of_string(text: str) -> Uint:
    if text[:1] in ("+", "-"):
        raise EvaluationError("type conversion error from 'string' to 'uint'")
    return check_uint(_digits(text, "uint"))


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
    """The overload is declared, but there is no such conversion."""
    raise EvaluationError("type conversion error from 'int' to 'google.protobuf.Duration'")


def conversions() -> list[Overload]:
    d = declare

    def same(value: object) -> Value:
        return value

    return [
        d("int", "int64_to_int64", "(int) int", same),
        d("int", "double_to_int64", "(double) int", _int_of_double),
        d("int", "duration_to_int64", "(duration) int", lambda a: a.nanos),
        d("int", "string_to_int64", "(string) int", _int_of_string),
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
