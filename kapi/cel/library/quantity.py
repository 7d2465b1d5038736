"""Resource quantities (upstream: apiserver ``cel/library/quantity.go``)."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from kapi.cel.arithmetic import INT_MAX, INT_MIN
from kapi.cel.errors import EvaluationError
from kapi.cel.functions import converter, declarer, readable
from kapi.cel.types import CelType
from kapi.cel.values import Opaque

QUANTITY = CelType("opaque", "kubernetes.Quantity")

_FORM = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE][+-]?[0-9]{1,4}")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = 10**9
_MAX_DIGITS, _MAX_BINARY_DIGITS = 18, 14  # of a number that Go keeps in 64 bits
_MAX_EXPONENT = 1000


class Quantity(Opaque):
    """An exact number with a resolution of 1n.

    ``scale``: the power of ten in whose units Go keeps the number in 64 bits, None when it does not.  Only a number of whole
    units that is kept so is an integer: ``2000m`` and ``1.5Gi`` are none.
    """

    __slots__ = ("number", "scale")
    cel_type = QUANTITY

    def __init__(self, number: Fraction, scale: int | None = 0) -> None:
        self.number = number
        self.scale = scale

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    @property
    def is_integer(self) -> bool:
        return self.scale is not None and self.scale >= 0 and INT_MIN <= self.number <= INT_MAX

    def plus(self, other: Quantity) -> Quantity:
        total = self.number + other.number
        if self.scale is None or other.scale is None:
            return Quantity(total, None)
        if not other.number:
            return Quantity(total, self.scale)
        scale = min(self.scale, other.scale) if self.number else other.scale
        fits = INT_MIN <= total / Fraction(10) ** scale <= INT_MAX
        return Quantity(total, scale if fits else None)


def parse(text: str) -> Quantity:
    """A quantity.  Raises ValueError."""
    match = _FORM.fullmatch(text) if len(text) <= 1000 else None
    if match is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    sign, whole, part, suffix = match.group(1), match.group(2).lstrip("0") or "0", match.group(3) or "", match.group(4)
    number, scale = Fraction(int(whole + part), 10 ** len(part)), None
    if suffix in _BINARY:
        power = _BINARY[suffix]
        number *= 1 << power
        if not part and len(whole) + power * 3 // 10 <= _MAX_BINARY_DIGITS and number <= INT_MAX:
            scale = 0
    else:
        exponent = _DECIMAL.get(suffix)
        if exponent is None:
            if not _EXPONENT.fullmatch(suffix) or abs(int(suffix[1:])) > _MAX_EXPONENT:
                raise ValueError("unable to parse quantity's suffix")
            exponent = int(suffix[1:])
        number *= Fraction(10) ** exponent
        if len(whole) + len(part) <= _MAX_DIGITS and exponent - len(part) >= -9:
            scale = exponent - len(part)
    if scale is None:
        number = Fraction(-(-number * _NANO // 1), _NANO)  # rounded up to 1n
        if suffix in _BINARY:
            number = min(number, Fraction(INT_MAX))
    return Quantity(-number if sign == "-" else number, scale)


def _integer(value: Quantity) -> int:
    if not value.is_integer:
        raise EvaluationError("cannot convert value to integer")
    return int(value.number)


def _float(value: Quantity) -> float:
    try:
        return float(value.number)
    except OverflowError:
        return _sign(value) * math.inf  # too large for a float


def _sign(value: Quantity) -> int:
    return (value.number > 0) - (value.number < 0)


def _compare(one: Quantity, other: Quantity) -> int:
    return (one.number > other.number) - (one.number < other.number)


d = declarer(Quantity=QUANTITY)

QUANTITIES = [
    d("quantity", "string_to_quantity", "(string) Quantity", converter(parse)),
    d("isQuantity", "is_quantity_string", "(string) bool", readable(parse)),
    d("sign", "quantity_sign", "(Quantity) int", _sign),
    d("isGreaterThan", "quantity_is_greater_than", "Quantity.(Quantity) bool", lambda a, b: a.number > b.number),
    d("isLessThan", "quantity_is_less_than", "Quantity.(Quantity) bool", lambda a, b: a.number < b.number),
    d("compareTo", "quantity_compare_to", "Quantity.(Quantity) int", _compare),
    d("asApproximateFloat", "quantity_get_float", "Quantity.() double", _float),
    d("asInteger", "quantity_get_int", "Quantity.() int", _integer),
    d("isInteger", "quantity_is_integer", "Quantity.() bool", lambda a: a.is_integer),
    d("add", "quantity_add", "Quantity.(Quantity) Quantity", lambda a, b: a.plus(b)),
    d("add", "quantity_add_int", "Quantity.(int) Quantity", lambda a, b: a.plus(Quantity(Fraction(b)))),
    d("sub", "quantity_sub", "Quantity.(Quantity) Quantity", lambda a, b: a.plus(Quantity(-b.number, b.scale))),
    d("sub", "quantity_sub_int", "Quantity.(int) Quantity", lambda a, b: a.plus(Quantity(Fraction(-b)))),
]
