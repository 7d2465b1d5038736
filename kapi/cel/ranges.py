"""Ranges of sizes and costs (upstream: cel-go ``checker/cost.go``)."""

from __future__ import annotations

import math
from typing import NamedTuple

MAX_UINT64 = 2**64 - 1


def times(x: int, y: int) -> int:
    return min(x * y, MAX_UINT64)


def _factor(x: int, y: float) -> int:
    if x > 0 and y > 0 and x > MAX_UINT64 / y:
        return MAX_UINT64
    product = math.ceil(float(x) * y)
    return min(product, MAX_UINT64)


class Range(NamedTuple):
    """A size or a cost, with its minimum and maximum."""

    min: int
    max: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.min + other.min, MAX_UINT64), min(self.max + other.max, MAX_UINT64))

    def times(self, other: Range) -> Range:
        return Range(times(self.min, other.min), times(self.max, other.max))

    def by(self, factor: float) -> Range:
        return Range(_factor(self.min, factor), _factor(self.max, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.min, other.min), max(self.max, other.max))


def fixed(value: int) -> Range:
    return Range(value, value)


UNKNOWN = Range(0, MAX_UINT64)
ONE = fixed(1)
