"""Integers in text as Go's ``strconv`` reads them, which is what clients are measured by.

``str.isdigit`` is true for digits of all the world's scripts and for superscripts, ``int`` takes most of these, underscores
and blanks, and raises for more than 4,300 digits: none of them reads what a client sent.
"""

from __future__ import annotations

import re

_SIGNED = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII).fullmatch
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
