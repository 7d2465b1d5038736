"""Dividing the server's concurrency by demand (KEP-1040).

Upstream: ``util/flowcontrol/conc_alloc.go``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_MIN_TARGET = 0.001  # a target of nothing would never be given anything


def half_up(number: float) -> int:
    """Rounds as upstream does: a half goes up."""
    return math.floor(number + 0.5)


class Claim(NamedTuple):
    """What one level must have, may have and would like, in seats."""

    lower: float
    upper: float
    target: float


def allocate(total: float, claims: Sequence[Claim]) -> tuple[list[float], float]:
    """Seats for each claim, and the fair fraction: as far as the bounds let it, each gets that part of its target.

    The seats sum up to ``total`` if the bounds allow it; otherwise each is at the bound that stands in the way.
    """
    if sum(claim.lower for claim in claims) >= total:
        return [claim.lower for claim in claims], 0.0
    if sum(claim.upper for claim in claims) <= total:
        return [claim.upper for claim in claims], 1.0
    targets = [max(claim.target, _MIN_TARGET) for claim in claims]

    def at(fraction: float) -> list[float]:
        return [
            max(claim.lower, min(claim.upper, fraction * target)) for claim, target in zip(claims, targets, strict=True)
        ]

    low, high = 0.0, max(claim.upper / target for claim, target in zip(claims, targets, strict=True))
    for _ in range(100):
        middle = (low + high) / 2
        if sum(at(middle)) < total:
            low = middle
        else:
            high = middle
    return at(high), high
