"""Sorting in pieces gives what sorting at once gives."""

from __future__ import annotations

import random
from unittest.mock import patch

import pytest

from kapi.machinery import sorting


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 100, 1001])
def test_the_order_is_that_of_sorted(count: int) -> None:
    chosen = random.Random(count)
    items = [(chosen.randrange(10), number) for number in range(count)]
    with patch.object(sorting, "_PIECE_ITEMS", 8), patch.object(sorting, "checkpoint") as checkpoint:
        assert sorting.ordered(items) == sorted(items)
    assert checkpoint.call_count >= count // 8 - 1
    assert items == [(first, number) for number, (first, _) in enumerate(items)]


@pytest.mark.parametrize("count", [0, 7, 9, 100, 1001])
def test_a_key_is_made_once_for_each(count: int) -> None:
    chosen = random.Random(count)
    items = [(chosen.randrange(10), number) for number in range(count)]
    asked = []

    def key(item: tuple[int, int]) -> int:
        asked.append(item)
        return -item[0]

    with patch.object(sorting, "_PIECE_ITEMS", 8):
        assert sorting.ordered(items, key) == sorted(items, key=lambda item: -item[0])
    assert asked == items


@pytest.mark.parametrize("count", [17, 100, 1001])
def test_no_piece_is_larger_than_two(count: int) -> None:
    """Neither what is sorted nor what is merged at once."""
    chosen = random.Random(count)
    sizes = []

    def note(some: list[float], key: object = None) -> list[float]:
        sizes.append(len(some))
        return sorted(some)

    for items in ([chosen.random() for _ in range(count)], list(range(count)), list(range(count, 0, -1)), [1] * count):
        with patch.object(sorting, "_PIECE_ITEMS", 8), patch.object(sorting, "sorted", note, create=True):
            assert sorting.ordered(items) == sorted(items)
    assert max(sizes) <= 16
