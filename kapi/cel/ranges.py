"""Ranges of sizes and costs, from the least to the most (upstream: cel-go ``checker/cost.go``)."""

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
    """A size or a cost."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.least + other.least, MAX_UINT64), min(self.most + other.most, MAX_UINT64))

    def times(self, other: Range) -> Range:
        return Range(times(self.least, other.least), times(self.most, other.most))

    def by(self, factor: float) -> Range:
        return Range(_factor(self.least, factor), _factor(self.most, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))


def fixed(value: int) -> Range:
    return Range(value, value)


UNKNOWN = Range(0, MAX_UINT64)


ONE = fixed(1)
