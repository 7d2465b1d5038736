"""Sizes of request bodies (upstream: apiserver ``endpoints/handlers/metrics``).

Upstream's buckets are linear, so the bucket of a size is found by a division.
"""

from __future__ import annotations

FIRST, STEP, COUNT = 50_000, 100_000, 31  # bytes, bytes, buckets
BOUNDS = tuple(float(FIRST + STEP * number) for number in range(COUNT))


class BodySizes:
    """A histogram of the body sizes (bytes) of one kind of request."""

    __slots__ = ("row",)

    def __init__(self) -> None:
        self.row = [0] * (COUNT + 2)  # counts by bucket, then the sum

    def add(self, size: int) -> None:
        row = self.row
        row[0 if size <= FIRST else min(COUNT, -((FIRST - size) // STEP))] += 1
        row[-1] += size
