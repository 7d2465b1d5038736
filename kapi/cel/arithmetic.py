"""Arithmetic with overflow checks (upstream: cel-go ``common/types``, ``overflow.go``)."""

from __future__ import annotations

import math

from kapi.cel.errors import EvaluationError
from kapi.cel.integers import INT_MAX, INT_MIN, UINT_MAX, Uint


def check_int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError("integer overflow")
    return value


def check_uint(value: int) -> Uint:
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def divide_int(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("division by zero")
    quotient = abs(one) // abs(other)
    return check_int(quotient if (one < 0) == (other < 0) else -quotient)


def modulo_int(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("modulus by zero")
    if one == INT_MIN and other == -1:
        raise EvaluationError("integer overflow")
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def divide_uint(one: int, other: int) -> Uint:
    if other == 0:
        raise EvaluationError("division by zero")
    return Uint(int(one) // int(other))


def modulo_uint(one: int, other: int) -> Uint:
    if other == 0:
        raise EvaluationError("modulus by zero")
    return Uint(int(one) % int(other))


def divide_double(one: float, other: float) -> float:
    if other == 0:
        if one == 0 or one != one:
            return math.nan
        return math.inf if (one > 0) == (math.copysign(1, other) > 0) else -math.inf
    return one / other


def times_double(one: float, other: float) -> float:
    return one * other
