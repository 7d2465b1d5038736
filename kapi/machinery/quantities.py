"""Quantities for validation: compare, add, round, print (upstream: apimachinery ``api/resource``).

Objects carry quantities as canonical strings; here a quantity becomes an exact number and a format.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from kapi.machinery.memo import cached_function

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkKMGTPE]?i?|[eE][+-]?[0-9]+)\Z").match
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {0: "", **{power: suffix for suffix, power in _BINARY.items()}}
_NANO = Fraction(1, 10**9)
_MAX_BINARY = Fraction((1 << 63) - 1)
_MAX_INTEGER_DIGITS = 18  # of an amount that Go holds as an integer
_WRAPPING = frozenset((1, 2, 3, 6, 9))  # powers of ten by which Go multiplies at once
_MAX_LENGTH = 5000  # characters
_MAX_EXPONENT = 4096  # larger exponents change no result, and take long to compute


class Amount(NamedTuple):
    """An exact value and its format, the family of suffixes: binary, decimal or exponent."""

    value: Fraction
    form: str

    def __str__(self) -> str:
        return _canonical(self)


@cached_function(8192)
def parse(text: str) -> Amount:
    """The amount of a text.  Raises ValueError when it is not a quantity."""
    found = _FORM(text)
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"quantities must match the regular expression: {text!r}")
    sign, whole, part, suffix = found.groups()
    if len(text) > _MAX_LENGTH:
        raise ValueError("a quantity of too many digits")
    value = Fraction(Decimal(f"{whole or '0'}.{part or '0'}"))
    form = "decimal"
    if suffix in _BINARY:
        form = "binary"
        value *= 1 << _BINARY[suffix]
    elif suffix in _DECIMAL:
        value *= Fraction(10) ** _DECIMAL[suffix]
    elif suffix[0] in "eE" and len(suffix) > 1:
        form = "exponent"
        value *= Fraction(10) ** max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(suffix[1:])))
    else:
        raise ValueError(f"unable to parse quantity's suffix: {text!r}")
    rest = value % _NANO
    if rest:
        value += _NANO - rest
    if form == "binary":
        value = min(value, _MAX_BINARY)
    return Amount(-value if sign == "-" else value, form)


def value_of(text: str | int | float) -> Fraction:
    """The exact number; integers and floats are returned unchanged."""
    return parse(str(text)).value


@cached_function(8192)
def sign(text: str) -> int:
    """-1, 0 or 1."""
    value = parse(text).value
    return (value > 0) - (value < 0)


@cached_function(8192)
def compare(a: str, b: str) -> int:
    """-1, 0 or 1."""
    if a == b:
        return 0
    left, right = parse(a).value, parse(b).value
    return (left > right) - (left < right)


def add(a: str, b: str) -> str:
    """The sum, in the format of the first quantity (of the second when the first is zero)."""
    left, right = parse(a), parse(b)
    form = right.form if left.value == 0 else left.form
    return str(Amount(left.value + right.value, form))


@cached_function(8192)
def is_whole(text: str) -> bool:
    """Whether it is a whole number of units, as upstream's validation finds out: amounts from 10^16 on may not be."""
    return milli(text) % 1000 == 0


@cached_function(8192)
def rounded_to_milli(text: str) -> str:
    """The quantity rounded up (away from zero) to a thousandth, as defaulting does; the same text when it fits."""
    amount = parse(text)
    scaled = amount.value * 1000
    if scaled.denominator == 1:
        return text
    whole = abs(scaled).__ceil__()
    return str(Amount(Fraction(whole if scaled > 0 else -whole, 1000), amount.form))


def ceiling(text: str) -> int:
    """The value in whole units, rounded up (Go's Quantity.Value)."""
    return _scaled(text, 0)


@cached_function(8192)
def milli(text: str) -> int:
    """The value in thousandths, rounded up (Go's Quantity.MilliValue)."""
    return _scaled(text, 3)


def _scaled(text: str, places: int) -> int:
    """The value with so many decimal places, rounded away from zero; an overflow wraps around, or becomes 0, as in Go.

    Go holds up to 18 decimal digits as an integer and a power of ten; it multiplies the integer by a usual power, which wraps,
    or by ten again and again, which stops.
    """
    amount = parse(text)
    value = amount.value * int(10**places)
    whole: int = value.__ceil__() if value >= 0 else -((-value).__ceil__())
    if -(1 << 63) <= whole < 1 << 63:
        return whole
    found = _FORM(text)
    assert found is not None
    digits, part, suffix = found[2], found[3] or "", found[4]
    if amount.form != "binary" and len(digits) + len(part) <= _MAX_INTEGER_DIGITS:
        exponent = _DECIMAL[suffix] if amount.form == "decimal" else int(suffix[1:])
        if exponent - len(part) + places not in _WRAPPING:
            return 0
    return ((whole + (1 << 63)) % (1 << 64)) - (1 << 63)


def _canonical(amount: Amount) -> str:
    value, form = amount
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    value = abs(value)
    if form == "binary" and (value < 1024 or value.denominator != 1):
        form = "decimal"
    if form == "binary":
        number, power = int(value), 0
        while number % 1024 == 0 and power < 60:
            number //= 1024
            power += 10
        return f"{sign}{number}{_BINARY_SUFFIX[power]}"
    power = 0
    while value.denominator != 1 and power > -9:
        value *= 1000
        power -= 3
    number = value.__ceil__()
    limit = 18
    while number % 1000 == 0 and power < limit:
        number //= 1000
        power += 3
    if form == "exponent":
        return f"{sign}{number}" if power == 0 else f"{sign}{number}e{power}"
    return f"{sign}{number}{_SUFFIX[power]}"
