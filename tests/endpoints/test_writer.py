"""A large answer is not copied for each client that does not read it."""

from __future__ import annotations

import tracemalloc
import zlib

from kapi.endpoints.writer import WholeBody, compress
from kapi.request.response import SLICE


def test_slices_are_the_body() -> None:
    for size in (0, 1, SLICE - 1, SLICE, SLICE + 1, 5 * SLICE + 7):
        body = bytes(number % 251 for number in range(size))
        slices = WholeBody(body)
        assert b"".join(slices) == body
        assert slices.size == size
        assert [len(part) <= SLICE for part in slices] == [True] * len(slices)
        assert list(slices[1:3]) == list(slices)[1:3]
    assert list(WholeBody(b"")) == [b""]


def test_two_hundred_that_nobody_reads_share_one_document() -> None:
    body = b"x" * (40 * SLICE)
    tracemalloc.start()
    try:
        waiting = [WholeBody(body) for _ in range(200)]
        taken = [slices[0] for slices in waiting]
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 1.5 * len(taken) * SLICE


def test_what_is_compressed() -> None:
    body = b"0123456789" * 100_000
    packed = compress(WholeBody(body))
    assert zlib.decompress(packed, 31) == body
    assert len(packed) < len(body) // 10
