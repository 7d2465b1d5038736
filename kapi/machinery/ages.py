"""Durations and ages for people: ``3d4h`` (upstream: apimachinery ``util/duration`` HumanDuration)."""

from __future__ import annotations

from kapi.machinery.time import seconds_of

_MINUTE, _HOUR = 60, 3600


def human_duration(seconds: float) -> str:
    """A duration in at most two units, ``3d4h``; the longer it is, the larger they are."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(0, whole)}s"
    minutes = whole // _MINUTE
    if minutes < 10:
        rest = whole % _MINUTE
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 3 * 60:
        return f"{minutes}m"
    hours = whole // _HOUR
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        rest = hours % 24
        return f"{days}d{rest}h" if rest else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return f"{years}y{rest}d" if rest and years < 8 else f"{years}y"


def since(timestamp: str | None, now: float) -> str:
    """The age of an RFC 3339 time at ``now`` (unix seconds); ``<unknown>`` without a time."""
    if not timestamp:
        return "<unknown>"
    return human_duration(now - seconds_of(timestamp))
