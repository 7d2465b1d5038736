"""Times, parsed as in Go and written in the API's form (upstream: apimachinery ``meta/v1`` Time and MicroTime, Go's ``time``)."""

from __future__ import annotations

import calendar
import re
import time as clock
from datetime import UTC, datetime

from kapi.machinery.memo import memoized

RFC3339 = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO = "2006-01-02T15:04:05.000000Z07:00"
_PLAIN = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)\Z", re.ASCII).match
_ANY_YEAR = re.compile(
    r"(-?\d{4,})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))?", re.ASCII
).fullmatch
ZERO_SECONDS = -62_135_596_800  # Go's zero time, in unix seconds
_CYCLE = 146_097 * 86_400  # seconds of 400 years, after which the calendar repeats
_CYCLES_FROM = 946_684_800  # the year 2000


def _quoted(text: str) -> str:
    """A text quoted as in errors of Go's ``time``: bytes beyond ASCII and control characters in hexadecimal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if not escaped.isascii() or not escaped.isprintable():
        escaped = "".join(chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}" for byte in escaped.encode())
    return f'"{escaped}"'


class TimeError(ValueError):
    """A text that is not a time; the message is Go's."""


class AnyYear(str):
    """The text of a time from the seconds of a protobuf message; its year does not have four digits, unlike in JSON."""

    __slots__ = ()


def format_micros(moment: datetime) -> str:
    """RFC 3339 in UTC with six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def of_unix(seconds: int) -> str:
    """Any unix seconds as Go formats them in UTC, without a zone: ``0001-01-01T00:00:00``, ``10000-...``, ``-0001-...``."""
    cycles, rest = divmod(seconds - _CYCLES_FROM, _CYCLE)
    moment = clock.gmtime(_CYCLES_FROM + rest)
    year = moment.tm_year + 400 * cycles
    shown = f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    return shown + clock.strftime("-%m-%dT%H:%M:%S", moment)


@memoized(4096)
def unix_of(text: str) -> tuple[int, int]:
    """Unix seconds and microseconds of a time as it is stored: ``2006-01-02T15:04:05[.000000]Z``, in any year."""
    if text[4] != "-" or text.startswith("0000"):  # a year that Python's calendar does not have
        whole, _, fraction = text[:-1].partition(".")
        return int(seconds_of(whole)), int(fraction or 0)
    parts = (int(text[start:end]) for start, end in ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19)))
    return calendar.timegm(tuple(parts)), int(text[20:-1]) if text[19:20] == "." else 0


def stamp(seconds: float) -> str:
    """Unix seconds as an RFC 3339 time in UTC, whole seconds."""
    return clock.strftime("%Y-%m-%dT%H:%M:%SZ", clock.gmtime(seconds))


def stamp_micros(seconds: float) -> str:
    """Unix seconds as an RFC 3339 time in UTC with microseconds."""
    return format_micros(datetime.fromtimestamp(seconds, UTC))


def seconds_of(timestamp: str) -> float:
    """Unix seconds of an RFC 3339 time with or without a fraction, in any zone, or of a text of ``of_unix``.

    Raises ValueError.
    """
    found = _ANY_YEAR(timestamp)
    if found is None:
        raise ValueError(f"{timestamp!r} is no time")
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    moment = datetime(2000 + year % 400, month, day, hour, minute, second, tzinfo=UTC)
    seconds = calendar.timegm(moment.utctimetuple()) + (year - moment.year) // 400 * _CYCLE
    fraction, sign, hours, minutes = found.group(7, 8, 9, 10)
    if sign:
        shift = int(hours) * 3600 + int(minutes) * 60
        seconds += shift if sign == "-" else -shift
    return seconds + float(fraction or 0)


def lasting(seconds: int) -> float:
    """Seconds converted to Go's ``time.Duration`` and back: nanoseconds beyond 64 bits wrap around."""
    return ((seconds * 10**9 + (1 << 63)) % (1 << 64) - (1 << 63)) / 1e9


@memoized(4096)
def time(text: str) -> str | None:
    """A ``Time`` in the API's form; None for Go's zero time.  Raises TimeError.

    Its zone can shift it into the year -1 or 10000; such a time is written, but cannot be read again.
    """
    found = _PLAIN(text)
    seconds, _ = _moment(text, *found.groups()) if found else _parse_layout(text, RFC3339)
    return None if seconds == ZERO_SECONDS else of_unix(seconds) + "Z"


@memoized(4096)
def micro_time(text: str) -> str | None:
    """A ``MicroTime`` in the API's form; None for Go's zero time.  Raises TimeError."""
    found = _PLAIN(text)
    if found is None or len(found[7] or "") != 6:
        seconds, micros = _parse_layout(text, RFC3339_MICRO)
    else:
        seconds, micros = _moment(text, *found.groups())
    return None if seconds == ZERO_SECONDS and not micros else f"{of_unix(seconds)}.{micros:06d}Z"


def _moment(
    text: str, year: str, month: str, day: str, hour: str, minute: str, second: str, fraction: str | None, zone: str
) -> tuple[int, int]:
    """Unix seconds and microseconds.  Raises TimeError."""
    for element, part in (("01", month), ("15", hour), ("04", minute), ("05", second)):
        _check_range(text, element, part)
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24:
            raise TimeError(f"parsing time {_quoted(text)}: time zone offset hour out of range")
        if minutes > 60:
            raise TimeError(f"parsing time {_quoted(text)}: time zone offset minute out of range")
        offset = (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    like = 2000 + int(year) % 400  # a year with the same days
    if not 1 <= int(day) <= calendar.monthrange(like, int(month))[1]:
        raise TimeError(f"parsing time {_quoted(text)}: day out of range")
    seconds = calendar.timegm((like, int(month), int(day), int(hour), int(minute), int(second)))
    return seconds + (int(year) - like) // 400 * _CYCLE - offset, micros


#: element of a layout -> its name and its limits; those of days depend on the month
_RANGES = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}


def _check_range(text: str, element: str, part: str) -> None:
    name, low, high = _RANGES.get(element, ("", 0, 0))
    if name and not low <= int(part) <= high:
        raise TimeError(f"parsing time {_quoted(text)}: {name} out of range")


def _cannot(text: str, layout: str, rest: str, element: str) -> TimeError:
    return TimeError(f'parsing time {_quoted(text)} as "{layout}": cannot parse {_quoted(rest)} as "{element}"')


_STEPS = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"),
    ("15", r"\d\d?"), (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d"),
)  # fmt: skip


def _parse_layout(text: str, layout: str) -> tuple[int, int]:
    """Parses by the elements of the layout, as Go.  Raises TimeError with the first element that does not fit.

    It accepts one form that ``_PLAIN`` does not: hours of one digit.
    """
    position = 0
    steps = [*_STEPS, (".000000", r"\.\d{6}")] if layout == RFC3339_MICRO else [*_STEPS, ("", r"(?:\.\d+)?")]
    for element, pattern in [*steps, ("Z07:00", r"Z|[+-]\d\d:\d\d")]:
        found = re.compile(pattern, re.ASCII).match(text, position)
        if found is None:
            raise _cannot(text, layout, text[position:], element)
        _check_range(text, element, found[0])
        position = found.end()
    if position < len(text):
        raise TimeError(f"parsing time {_quoted(text)}: extra text: {_quoted(text[position:])}")
    hour = re.sub(r"T(\d):", r"T0\1:", text)
    found = _PLAIN(hour)
    assert found is not None
    return _moment(text, *found.groups())
