"""Durations as Go writes them: ``1h15m``, ``1.5s``, ``300ms`` (Go ``time.ParseDuration``)."""

from __future__ import annotations

import re
from fractions import Fraction

from kapi.machinery.field import quote

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
        whole, fraction, unit = match.group(1), match.group(2) or "", match.group(3)
        if not whole and len(fraction) < 2:
            raise ValueError(f"time: invalid duration {quote(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {quote(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        total += int(Fraction((whole or "0") + (fraction if len(fraction) > 1 else "")) * _UNITS[unit])
        position = match.end()
    if total >= 1 << 63:
        raise ValueError(f"time: invalid duration {quote(text)}")
    return sign * total
