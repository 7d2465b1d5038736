"""Prints and parses like Go's standard library, where clients see it: quoted texts, numbers, durations, values, errors.

Upstream: Go ``strconv``, ``time`` (Duration), ``fmt``; apimachinery ``util/errors`` (Aggregate).  Python's own functions are
too lenient for what a client sends: ``str.isdigit`` accepts the digits of all scripts and superscripts; ``int`` accepts most of
these and blanks, and raises for more than 4,300 digits.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from kapi.machinery.checkpoint import steps
from kapi.machinery.sorting import ordered

_CHARACTERS_PER_CHECKPOINT = 500  # characters of a quoted text
_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quote(text: str) -> str:
    """A string in the form of Go's %q."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quote_char(char) for char in steps(text, _CHARACTERS_PER_CHECKPOINT)) + '"'


def _quote_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_SIGNED = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII).fullmatch
_LITERAL = re.compile(r"[0-9][0-9a-z_]{0,99}", re.ASCII | re.IGNORECASE).fullmatch
_OCTAL = frozenset("01234567_")  # characters after the 0 of an octal number without a letter
_FLOAT = re.compile(
    r"[+-]?((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
).fullmatch
_MAX_PLAIN_DIGITS = 6  # digits before the point of a float that is written without an exponent
_MAX_DIGITS = 20  # digits of a 64-bit number


class NumberError(ValueError):
    """A text that is not such a number; the message is "invalid syntax" or "value out of range"."""


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


def parse_literal(text: str) -> int:
    """A 64-bit number in Go's notation: a prefix (``0x``, ``0o``, ``0b``, ``0``), ``_`` between digits (``strconv.ParseInt``
    with base 0).  Raises NumberError with Go's whole message."""
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    try:
        if not _LITERAL(digits):
            raise NumberError("invalid syntax")
        value = int(sign + digits, 8 if digits[0] == "0" and digits[1:2] in _OCTAL else 0)
        if not is_int64(value):
            raise NumberError("value out of range")
    except ValueError as error:
        why = error if isinstance(error, NumberError) else "invalid syntax"
        raise NumberError(f"strconv.ParseInt: parsing {quote(text)}: {why}") from None
    return value


def parse_float(text: str) -> float:
    """A float64 (``strconv.ParseFloat``).  Raises NumberError with Go's whole message."""
    if _FLOAT(text) is None:
        raise NumberError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise NumberError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range")
    return value


def parse_bool(text: str) -> bool:
    """``strconv.ParseBool``.  Raises NumberError with Go's whole message."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise NumberError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def _bounded(digits: str) -> int:
    digits = digits.lstrip("0")
    if len(digits) > _MAX_DIGITS:
        raise NumberError("value out of range")
    return int(digits or "0")


def float_text(value: float) -> str:
    """A float64 in the form of ``%v``: the shortest digits, with an exponent below 1e-4 and from 1e6 on."""
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


_PLAIN_IN_JSON = 1e-6, 1e21  # between these encoding/json writes a float64 without an exponent


def float32_text(value: float) -> str:
    """``float_text`` of the nearest float32, with the shortest digits of that."""
    try:
        nearest = _as_float32(value)
    except OverflowError:
        return float_text(math.copysign(math.inf, value))
    if not math.isfinite(nearest):
        return float_text(nearest)
    shown = (float(f"{nearest:.{digits}g}") for digits in range(1, _MAX_FLOAT32_DIGITS))
    return float_text(next((short for short in shown if _as_float32(short) == nearest), nearest))


def _as_float32(value: float) -> float:
    """Raises OverflowError."""
    found: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return found


_FLOAT32 = struct.Struct("f")
_MAX_FLOAT32_DIGITS = 10  # digits that distinguish any two float32


def float_json(value: float) -> str:
    """A finite float64 in the form of ``encoding/json``."""
    from decimal import Decimal

    text = repr(float(value))
    if value and not _PLAIN_IN_JSON[0] <= abs(value) < _PLAIN_IN_JSON[1]:
        digits, _, exponent = text.partition("e")
        return f"{digits}e{exponent[0]}{exponent[1:].lstrip('0')}"
    return format(Decimal(text), "f").removesuffix(".0")


def json_integer(value: float) -> int:
    """The integer with the same JSON text as a whole float below 1e21: zeros stand for the digits that a float does not have."""
    from decimal import Decimal

    return int(value) if abs(value) < _EXACT else int(Decimal(repr(value)))


_EXACT = 1 << 53  # below it a float has all digits of an integer

#: nanoseconds
_UNITS = {
    "ns": 1, "us": 1_000, "\u00b5s": 1_000, "\u03bcs": 1_000, "ms": 1_000_000,
    "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000,
}  # fmt: skip
_TERM = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")


def parse_duration(text: str) -> float:
    """Seconds.  Raises ValueError with Go's message."""
    return nanoseconds(text) / 1e9


def nanoseconds(text: str) -> int:
    """Nanoseconds; a fraction is cut off.  Raises ValueError with Go's message."""
    rest, sign = text, 1
    if rest[:1] in ("-", "+"):
        sign = -1 if rest[0] == "-" else 1
        rest = rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {quote(text)}")
    total = 0
    position = 0
    while position < len(rest):
        match = _TERM.match(rest, position)
        assert match is not None
        whole, fraction, unit = match.group(1), (match.group(2) or "")[1:], match.group(3)
        if not whole and not fraction:
            raise ValueError(f"time: invalid duration {quote(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {quote(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        total += int(whole + fraction) * _UNITS[unit] // 10 ** len(fraction)
        position = match.end()
    if total - (sign < 0) >= 1 << 63:
        raise ValueError(f"time: invalid duration {quote(text)}")
    return sign * total


def duration_text(seconds: float) -> str:
    """A duration in the form of Go's ``String``: ``1h0m0s``, ``2s``, ``250ms``, ``1ns``."""
    count = round(seconds * 1e9)
    if count < 0:
        return f"-{duration_text(-seconds)}"
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if 0 < count < 1_000 * size:
            return f"{_decimal(count / size)}{unit}"
    minutes, rest = divmod(count, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest / 1e9)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def _decimal(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")


_INT64 = 1 << 63  # larger numbers are float64 in Go


def is_int64(number: int) -> bool:
    """Whether Go reads a number of this value as an integer."""
    return -_INT64 <= number < _INT64


class GoValue(NamedTuple):
    """A value of a Go type that JSON does not have: its forms ``%v`` and ``%#v``, and ``%T``."""

    text: str
    source: str
    type: str

    def __str__(self) -> str:
        return self.text


def value_text(value: object) -> str:
    """A JSON tree in the form of ``%v``: maps with sorted keys, lists without commas, null as ``<nil>``."""
    if value is None:
        return "<nil>"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float) or isinstance(value, int) and not is_int64(value):
        return float_text(float(value))
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{value_text(value[key])}" for key in steps(ordered(value))) + "]"
    if isinstance(value, list):
        return "[" + " ".join(value_text(item) for item in steps(value)) + "]"
    return str(value)


def syntax(value: object, mapping: str = "map[string]interface {}") -> str:
    """A JSON tree in the form of ``%#v``; ``mapping`` is the type of its maps."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        entries = (f"{quote(key)}:{syntax(value[key], mapping)}" for key in steps(ordered(value)))
        return mapping + "{" + ", ".join(entries) + "}"
    if isinstance(value, GoValue):
        return value.source
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(syntax(item, mapping) for item in steps(value)) + "}"
    return "interface {}(nil)" if value is None else value_text(value)


def type_name(value: object) -> str:
    """The Go type of a decoded JSON value: ``map[string]interface {}``, ``string``, ``int64`` ..."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int) and is_int64(value):
        return "int64"
    if isinstance(value, (int, float)):
        return "float64"
    if isinstance(value, dict):
        return "map[string]interface {}"
    return value.type if isinstance(value, GoValue) else "[]interface {}"


def file_error(error: OSError) -> str:
    """The text of an error of a file.  Go opens a directory, and fails to read it."""
    verb = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{verb} {error.filename}: {str(error.strerror).lower()}"


def aggregate(errors: Iterable[str]) -> str:
    """The text of several errors, each distinct one once: ``a`` or ``[a, b]``; "" without errors."""
    texts = list(dict.fromkeys(text for text in errors if text))
    text = ", ".join(texts)
    return f"[{text}]" if len(texts) > 1 else text


def json_bytes(value: str | list[int] | None) -> bytes:
    """The bytes of a ``[]byte`` in JSON: base64 or a list of numbers.  Raises ValueError with Go's message."""
    return bytes(value) if isinstance(value, list) else base64_bytes(value or "")


STANDARD, URL_SAFE = "+/", "-_"  # the last two characters of the alphabets of base64


def base64_bytes(text: str, last: str = STANDARD) -> bytes:
    """Decodes like ``base64.StdEncoding`` or ``base64.RawURLEncoding``, which skip line breaks.

    Only the first has padding.  Raises ValueError with Go's message.
    """
    import base64

    compact = text.replace("\r", "").replace("\n", "")
    padding = "=" * (-len(compact) % 4) if last == URL_SAFE else ""
    try:
        wrong = len(compact + padding) % 4 or compact.endswith("===")
        if wrong or (last == URL_SAFE and not {"+", "/", "="}.isdisjoint(compact)):
            raise ValueError  # which Python would take
        return base64.b64decode(compact + padding, altchars=last, validate=True)
    except ValueError:
        raise ValueError(f"illegal base64 data at input byte {_base64_fault(text.encode(), last)}") from None


def _base64_fault(data: bytes, last: str) -> int:
    """Where Go's decoder fails: at the first byte that cannot follow those before it, or where a group begins that is cut off."""
    wrong = re.search(rf"[^A-Za-z0-9{re.escape(last)}\r\n]".encode(), data)
    end = wrong.start() if wrong else len(data)
    in_group = (end - data.count(b"\r", 0, end) - data.count(b"\n", 0, end)) % 4
    if wrong is None:
        return end - in_group
    if wrong[0] != b"=" or in_group < 2 or last == URL_SAFE:
        return end
    after = islice(re.compile(rb"[^\r\n]").finditer(data, end + 1), 2)
    places = [each.start() for each in after] + [len(data)] * 2
    if in_group == 2 and data[places[0] : places[0] + 1] not in (b"=", b""):
        return places[0] - 1
    return places[3 - in_group]
