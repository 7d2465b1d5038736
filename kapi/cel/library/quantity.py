"""Resource quantities (upstream: apiserver ``cel/library/quantity.go``)."""

from __future__ import annotations

import re
from fractions import Fraction

from kapi.cel.arithmetic import INT_MAX, INT_MIN
from kapi.cel.errors import EvaluationError
from kapi.cel.functions import declarer
from kapi.cel.types import CelType
from kapi.cel.values import Opaque

QUANTITY = CelType("opaque", "kubernetes.Quantity")

_FORM = re.compile(r"([+-]?)([0-9]++\.?+[0-9]*+|\.[0-9]++)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = 10**9


class Quantity(Opaque):
    """An exact number with a resolution of 1n."""

    __slots__ = ("number",)
    cel_type = QUANTITY

    def __init__(self, number: Fraction) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


def parse(text: str) -> Quantity:
    """A quantity.  Raises ValueError."""
    match = _FORM.fullmatch(text) if len(text) <= 1000 else None
    if match is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    sign, digits, suffix = match.group(1), match.group(2), match.group(3) or ""
    number = Fraction(digits.rstrip(".") if not digits.startswith(".") else "0" + digits)
    if suffix in _BINARY:
        number *= 1 << _BINARY[suffix]
    elif suffix in _DECIMAL:
        number *= Fraction(10) ** _DECIMAL[suffix]
    else:
        exponent = int(suffix[1:])
        if abs(exponent) > 1000:
            raise ValueError("unable to parse quantity's suffix")
        number *= Fraction(10) ** exponent
    number = Fraction(-(-number * _NANO // 1), _NANO)  # rounded up to 1n
    limit = Fraction(INT_MAX)
    if number > limit:
        number = limit
    return Quantity(-number if sign == "-" else number)


def _of(text: str) -> Quantity:
    try:
        return parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _integer(value: Quantity) -> int:
    if value.number.denominator != 1 or not INT_MIN <= value.number <= INT_MAX:
        raise EvaluationError("cannot convert value to integer")
    return int(value.number)


def _sign(value: Quantity) -> int:
    return (value.number > 0) - (value.number < 0)


def _compare(one: Quantity, other: Quantity) -> int:
    return (one.number > other.number) - (one.number < other.number)


d = declarer(Quantity=QUANTITY)

QUANTITIES = [
    d("quantity", "string_to_quantity", "(string) Quantity", _of),
    d("isQuantity", "is_quantity_string", "(string) bool", _is),
    d("sign", "quantity_sign", "(Quantity) int", _sign),
    d("isGreaterThan", "quantity_is_greater_than", "Quantity.(Quantity) bool", lambda a, b: a.number > b.number),
    d("isLessThan", "quantity_is_less_than", "Quantity.(Quantity) bool", lambda a, b: a.number < b.number),
    d("compareTo", "quantity_compare_to", "Quantity.(Quantity) int", _compare),
    d("asApproximateFloat", "quantity_get_float", "Quantity.() double", lambda a: float(a.number)),
    d("asInteger", "quantity_get_int", "Quantity.() int", _integer),
    d(
        "isInteger",
        "quantity_is_integer",
        "Quantity.() bool",
        lambda a: a.number.denominator == 1 and INT_MIN <= a.number <= INT_MAX,
    ),
    d("add", "quantity_add", "Quantity.(Quantity) Quantity", lambda a, b: Quantity(a.number + b.number)),
    d("add", "quantity_add_int", "Quantity.(int) Quantity", lambda a, b: Quantity(a.number + b)),
    d("sub", "quantity_sub", "Quantity.(Quantity) Quantity", lambda a, b: Quantity(a.number - b.number)),
    d("sub", "quantity_sub_int", "Quantity.(int) Quantity", lambda a, b: Quantity(a.number - b)),
]
