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
    with patch.object(sorting, "_PIECE", 8), patch.object(sorting, "checkpoint") as checkpoint:
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

    with patch.object(sorting, "_PIECE", 8):
        assert sorting.ordered(items, key) == sorted(items, key=lambda item: -item[0])
    assert asked == items
