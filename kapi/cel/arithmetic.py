"""Integers of CEL with their limits, and arithmetic with overflow checks.

Upstream: cel-go ``common/types``: ``int.go``, ``uint.go``, ``overflow.go``.
"""

from __future__ import annotations

import math

from kapi.cel.errors import EvaluationError

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
UINT_MAX = 2**64 - 1


class Uint(int):
    """An unsigned integer; it equals an int of the same value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


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
