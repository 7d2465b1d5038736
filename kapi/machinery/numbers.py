"""Integers in texts, parsed as Go's ``strconv`` does.

Python's own functions are too lenient for what a client sends: ``str.isdigit`` accepts the digits of all scripts and
superscripts; ``int`` accepts most of these, underscores and blanks, and raises for more than 4,300 digits.
"""

from __future__ import annotations

import math
import re

_SIGNED = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII).fullmatch
_MAX_PLAIN_DIGITS = 6  # digits before the point of a float that is written without an exponent
_MAX_DIGITS = 20  # digits of a 64-bit number


class NumberError(ValueError):
    """Not such a number; the text is "invalid syntax" or "value out of range"."""


def parse_int(text: str, bits: int = 64) -> int:
    """A signed decimal number (``strconv.ParseInt``).  Raises NumberError."""
    if _SIGNED(text) is None:
        raise NumberError("invalid syntax")
    number = _bounded(text.lstrip("+-")) * (-1 if text[0] == "-" else 1)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise NumberError("value out of range")
    return number


def parse_uint(text: str, bits: int = 64) -> int:
    """An unsigned decimal number (``strconv.ParseUint``).  Raises NumberError."""
    if _UNSIGNED(text) is None:
        raise NumberError("invalid syntax")
    number = _bounded(text)
    if number >= 1 << bits:
        raise NumberError("value out of range")
    return number


def _bounded(digits: str) -> int:
    digits = digits.lstrip("0")
    if len(digits) > _MAX_DIGITS:
        raise NumberError("value out of range")
    return int(digits or "0")


def float_text(value: float) -> str:
    """A float64 as ``%v`` shows it: the shortest digits, with an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    from decimal import Decimal  # floats are rare

    sign, figures, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, figures)).lstrip("0")
    exponent += len(digits) - len(digits.rstrip("0"))
    digits = digits.rstrip("0")
    minus = "-" if sign else ""
    if not digits:
        return minus + "0"
    point = len(digits) + exponent  # digits before the point
    if not -4 <= point - 1 < _MAX_PLAIN_DIGITS:
        rest = "." + digits[1:] if len(digits) > 1 else ""
        return f"{minus}{digits[0]}{rest}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    if exponent >= 0:
        return minus + digits + "0" * exponent
    return f"{minus}{digits[:point]}.{digits[point:]}"
