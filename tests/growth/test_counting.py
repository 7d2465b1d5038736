"""What is counted is the work alone, whatever ran before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kapi.machinery.memo import BoundedCache, cached_function
from tests.growth.counting import effort, lines, stretches

MANY = 1000


class Left:
    """Garbage with a finalizer, as an asynchronous result that nobody looked at."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(MANY):
            pass


def work() -> list[list[int]]:
    return [[] for _ in range(MANY)]  # the collector looks for garbage when so many more are made


WAYS: tuple[Callable[[Callable[[], Any]], int], ...] = (
    effort,
    lambda work: stretches(work).longest,
    lambda work: max(lines(work).values()),
)


@pytest.mark.parametrize("count", WAYS)
def test_garbage_of_other_tests_is_not_counted(count: Callable[[Callable[[], Any]], int]) -> None:
    first = count(work)
    for _ in range(10):
        Left()
    assert count(work) == first


@cached_function(10)
def remembered(number: int) -> int:
    return number


kept: BoundedCache[int, int] = BoundedCache(10)


@pytest.mark.parametrize("count", WAYS)
def test_what_was_remembered_before_is_counted(count: Callable[[Callable[[], Any]], int]) -> None:
    def work() -> None:
        remembered(1)
        if 1 not in kept:
            for number in range(MANY):
                kept.add(1, number)

    first = count(work)
    assert first >= MANY
    assert count(work) == first
