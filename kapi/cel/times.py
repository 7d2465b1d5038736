"""The timestamps and durations of CEL (upstream: cel-go ``common/types``, ``timestamp.go`` and ``duration.go``)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from kapi.cel.arithmetic import INT_MAX, INT_MIN
from kapi.cel.errors import EvaluationError
from kapi.machinery.time import of_unix

NANOS = 1_000_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TIMESTAMP_MIN = -62135596800 * NANOS

_TIMESTAMP_MAX = 253402300800 * NANOS - 1

_DURATION_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 1_000_000,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3600 * NANOS,
}

_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")

_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)


class Timestamp:
    """A point in time: nanoseconds since 1970, and the offset of its text to UTC in minutes."""

    __slots__ = ("nanos", "offset")

    def __init__(self, nanos: int, offset: int = 0) -> None:
        if not TIMESTAMP_MIN <= nanos <= _TIMESTAMP_MAX:
            raise EvaluationError("timestamp overflow")
        self.nanos = nanos
        self.offset = offset

    def moved(self, nanos: int) -> Timestamp:
        """The point in time that is so much later.  Raises EvaluationError."""
        return Timestamp(self.nanos + nanos, self.offset)

    @classmethod
    def parse(cls, text: str) -> Timestamp:
        """Parses RFC 3339.  Raises ValueError, and EvaluationError for a time out of range."""
        match = _RFC3339.fullmatch(text)
        if match is None:
            raise ValueError(text)
        year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
        fraction = int((match.group(7) or "").ljust(9, "0")[:9] or "0")
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        delta = moment - _EPOCH
        nanos = (delta.days * 86400 + delta.seconds) * NANOS + fraction
        zone = match.group(8)
        offset = 0
        if zone != "Z":
            hours, minutes = int(zone[1:3]), int(zone[4:6])
            if hours > 23 or minutes > 59:
                raise ValueError(text)
            offset = (hours * 60 + minutes) * (1 if zone[0] == "+" else -1)
        return cls(nanos - offset * 60 * NANOS, offset)

    def datetime(self) -> datetime:
        """The time in UTC, truncated to microseconds."""
        return _EPOCH + timedelta(microseconds=self.nanos // 1000)

    def __str__(self) -> str:
        """The time as it was written, with its offset."""
        seconds, fraction = divmod(self.nanos, NANOS)
        text = of_unix(seconds + self.offset * 60)
        hours, minutes = divmod(abs(self.offset), 60)
        zone = f"{'-' if self.offset < 0 else '+'}{hours:02d}:{minutes:02d}" if self.offset else "Z"
        return f"{text}.{str(fraction).rjust(9, '0').rstrip('0')}{zone}" if fraction else text + zone

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)


class Duration:
    """A span of time in nanoseconds; as in Go it fits 64 bits."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not INT_MIN <= nanos <= INT_MAX:
            raise EvaluationError("duration overflow")
        self.nanos = nanos

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Parses Go's form, ``1h30m``.  Raises ValueError."""
        body = text[1:] if text[:1] in ("-", "+") else text
        if body == "0":
            return cls(0)
        position, total = 0, 0
        if not body or len(body) > 200:
            raise ValueError(text)
        while position < len(body):
            match = _DURATION_PART.match(body, position)
            if match is None or not (match.group(1) or match.group(2)):
                raise ValueError(text)
            unit = _DURATION_UNITS[match.group(3)]
            total += int(match.group(1) or "0") * unit
            fraction = match.group(2) or ""
            if fraction:
                total += int(fraction) * unit // 10 ** len(fraction)
            position = match.end()
        if total > INT_MAX:
            raise ValueError(text)
        return cls(-total if text[0] == "-" else total)

    def __str__(self) -> str:
        """The duration in seconds, as the language prints it: a float64 with all its digits."""
        sign = "-" if self.nanos < 0 else ""
        whole, fraction = divmod(abs(self.nanos), NANOS)
        if not fraction:
            return f"{sign}{whole}s"
        return f"{sign}{Decimal(repr(whole + fraction / 1e9)):f}s"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)
