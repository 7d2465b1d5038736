"""math.* (upstream: cel-go ``ext/math.go``), which is not available in Kubernetes."""

from __future__ import annotations

import math
from collections.abc import Callable

from kapi.cel.arithmetic import UINT_MAX, Uint, check_int
from kapi.cel.errors import EvaluationError
from kapi.cel.functions import Overload
from kapi.cel.functions import declare as d
from kapi.cel.types import Value
from kapi.cel.values import compare


def _extreme(name: str, sign: int) -> tuple[Callable[..., Value], Callable[[Value], Value]]:
    def of(*values: object) -> Value:
        found = values[0]
        for value in values[1:]:
            if compare(value, found) * sign > 0:
                found = value
        return found

    def of_list(values: Value) -> Value:
        if not values:
            raise EvaluationError(f"math.{name}(list) argument must not be empty")
        return of(*values)

    return of, of_list


def _shift_left(value: int, bits: int) -> int:
    if bits < 0:
        raise EvaluationError(f"math.bitShiftLeft() negative offset: {bits}")
    return _signed((value << bits) if bits < 64 else 0)


def _shift_right(value: int, bits: int) -> int:
    if bits < 0:
        raise EvaluationError(f"math.bitShiftRight() negative offset: {bits}")
    return _signed((value & UINT_MAX) >> bits) if bits < 64 else 0


def _signed(value: int) -> int:
    value &= UINT_MAX
    return value - 2**64 if value >= 2**63 else value


def _round(value: float) -> float:
    """Rounds halves away from zero."""
    if not math.isfinite(value):
        return value
    whole = math.floor(abs(value))
    return math.copysign(whole + (abs(value) - whole >= 0.5), value)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(function(value)) if math.isfinite(value) else value


def _sign(value: Value) -> Value:
    if value != value:
        return value
    return type(value)((value > 0) - (value < 0))


def _sqrt(value: Value) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _extremes() -> list[Overload]:
    found: list[Overload] = []
    kinds = ("int", "uint", "double")
    for word, name, sign in (("least", "@min", -1), ("greatest", "@max", 1)):
        of, of_list = _extreme(name, sign)
        function = f"math.{word}"
        for kind in kinds:
            found.append(d(function, f"math_{name}_{kind}", f"({kind}) {kind}", of))
            found.append(d(function, f"math_{name}_list_{kind}", f"(list({kind})) {kind}", of_list))
            for other in kinds:
                result = kind if kind == other else "dyn"
                found.append(d(function, f"math_{name}_{kind}_{other}", f"({kind}, {other}) {result}", of))
        for count in range(3, 9):
            arguments = ", ".join(["dyn"] * count)
            found.append(d(function, f"math_{name}_{count}", f"({arguments}) dyn", of))
    return found


MATH = [
    *_extremes(),
    d("math.ceil", "math_ceil_double", "(double) double", _whole(math.ceil)),
    d("math.floor", "math_floor_double", "(double) double", _whole(math.floor)),
    d("math.round", "math_round_double", "(double) double", _round),
    d("math.trunc", "math_trunc_double", "(double) double", _whole(math.trunc)),
    d("math.isInf", "math_isInf_double", "(double) bool", math.isinf),
    d("math.isNaN", "math_isNaN_double", "(double) bool", math.isnan),
    d("math.isFinite", "math_isFinite_double", "(double) bool", math.isfinite),
    d("math.abs", "math_abs_double", "(double) double", abs),
    d("math.abs", "math_abs_int", "(int) int", lambda a: check_int(abs(a))),
    d("math.abs", "math_abs_uint", "(uint) uint", lambda a: a),
    d("math.sign", "math_sign_double", "(double) double", _sign),
    d("math.sign", "math_sign_int", "(int) int", _sign),
    d("math.sign", "math_sign_uint", "(uint) uint", _sign),
    d("math.sqrt", "math_sqrt_double", "(double) double", _sqrt),
    d("math.sqrt", "math_sqrt_int", "(int) double", _sqrt),
    d("math.sqrt", "math_sqrt_uint", "(uint) double", _sqrt),
    d("math.bitAnd", "math_bitAnd_int_int", "(int, int) int", lambda a, b: a & b),
    d("math.bitAnd", "math_bitAnd_uint_uint", "(uint, uint) uint", lambda a, b: Uint(int(a) & int(b))),
    d("math.bitOr", "math_bitOr_int_int", "(int, int) int", lambda a, b: a | b),
    d("math.bitOr", "math_bitOr_uint_uint", "(uint, uint) uint", lambda a, b: Uint(int(a) | int(b))),
    d("math.bitXor", "math_bitXor_int_int", "(int, int) int", lambda a, b: a ^ b),
    d("math.bitXor", "math_bitXor_uint_uint", "(uint, uint) uint", lambda a, b: Uint(int(a) ^ int(b))),
    d("math.bitNot", "math_bitNot_int_int", "(int) int", lambda a: ~a),
    d("math.bitNot", "math_bitNot_uint_uint", "(uint) uint", lambda a: Uint(~int(a) & UINT_MAX)),
    d("math.bitShiftLeft", "math_bitShiftLeft_int_int", "(int, int) int", _shift_left),
    d(
        "math.bitShiftLeft",
        "math_bitShiftLeft_uint_int",
        "(uint, int) uint",
        lambda a, b: Uint(_shift_left(int(a), b) & UINT_MAX),
    ),
    d("math.bitShiftRight", "math_bitShiftRight_int_int", "(int, int) int", _shift_right),
    d(
        "math.bitShiftRight",
        "math_bitShiftRight_uint_int",
        "(uint, int) uint",
        lambda a, b: Uint(_shift_right(int(a), b) & UINT_MAX),
    ),
]
