"""Quantities in canonical form (upstream: apimachinery ``api/resource``).

The API returns a quantity in canonical form, except where upstream keeps the given text: ``+1``, ``001`` and ``1.`` stay
unchanged, ``1000m`` becomes ``1``.
"""

from __future__ import annotations

import re

from kapi.machinery.memo import memoized

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
# possessive quantifiers: backtracking over thousands of zeros would take quadratic time
_SPLIT = re.compile(r"([+-]?)0*+([0-9]*+)(\.[0-9]*+)?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)\Z", re.ASCII).match
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EXPONENT = re.compile(r"[eE]([+-]?)0*([0-9]{1,9})\Z", re.ASCII).match
_INT64 = 1 << 63
_MAX_DIGITS = 18  # always fit an int64
#: larger exponents, and more digits, would only cost time; upstream has no such limits
_MAX_EXPONENT = 1 << 12
_MAX_LENGTH = 4096  # digits


class QuantityError(ValueError):
    """A text that is not a quantity; the message is upstream's."""


def _wrong_format() -> QuantityError:
    return QuantityError(f"quantities must match the regular expression '{PATTERN}'")


@memoized(8192)
def canonical(text: str) -> str:
    """The canonical text of a quantity, which is stored and returned.  Raises QuantityError."""
    if not text:
        raise _wrong_format()
    if text == "0":
        return text
    found = _SPLIT(text)
    if found is None:
        raise _wrong_format()
    sign, number, point, suffix = found.groups()
    number = number or "0"
    fraction = (point or ".")[1:]
    family, exponent = _read_suffix(suffix)
    if len(number) + len(fraction) > _MAX_LENGTH:
        raise _wrong_format()
    value = int(number + fraction)
    if _keeps_text(text, number, fraction, family, exponent, value):
        return text
    return ("-" if sign == "-" and value else "") + _write(value, len(fraction), family, exponent)


def _read_suffix(suffix: str) -> tuple[str, int]:
    """(family, exponent): a power of ten for "decimal" and "exponent", of two for "binary"."""
    if suffix in _DECIMAL:
        return "decimal", _DECIMAL[suffix]
    if suffix in _BINARY:
        return "binary", _BINARY[suffix]
    found = _EXPONENT(suffix)
    if found is None or int(found[2]) > _MAX_EXPONENT:
        raise QuantityError("unable to parse quantity's suffix")
    return "exponent", int(found[1] + found[2])


def _keeps_text(text: str, number: str, fraction: str, family: str, exponent: int, value: int) -> bool:
    """Whether upstream keeps the given text as the canonical one."""
    if family == "binary":
        if fraction or 15 - len(number) - exponent * 3 // 10 - 1 < 0 or value << exponent >= _INT64:
            return False
        return value & 7 != 0
    scale = exponent - len(fraction)
    if len(number) + len(fraction) > _MAX_DIGITS or scale < -9:
        return False
    digits = number + fraction
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _write(value: int, places: int, family: str, exponent: int) -> str:
    """The canonical text of ``value`` (without sign), of whose digits ``places`` are after the decimal point."""
    if value == 0:
        return "0"
    if family == "binary":
        numerator, scale = value << exponent, -places
    else:
        numerator, scale = value, exponent - places
    if scale < -9:  # nano is the smallest unit; rounded up, away from zero
        divisor = 10 ** (-9 - scale)
        numerator = -(-numerator // divisor)
        scale = -9
    while numerator % 10 == 0:
        numerator //= 10
        scale += 1
    if family == "binary":
        whole, rest = (numerator * 10**scale, 0) if scale >= 0 else divmod(numerator, 10**-scale)
        if whole >= _INT64 - 1:
            whole, rest = _INT64 - 1, 0  # upstream caps the value
        if rest == 0 and whole >= 1024:
            power = 0
            while whole % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
                whole //= 1024
                power += 1
            return f"{whole}{_BINARY_SUFFIX[power]}"
        family = "decimal"
    padding = scale % 3
    numerator *= 10**padding
    scale -= padding
    if family == "exponent":
        return f"{numerator}e{scale}" if scale else str(numerator)
    return f"{numerator}{_DECIMAL_SUFFIX.get(scale, '')}"
