"""Caches of what clients send: bounded, and small again after a burst."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from kapi.machinery import memo
from kapi.machinery.memo import BoundedCache, ExpiringCache, cached_function, forget_burst, memoized

COUNT = 1000


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with patch.multiple(memo, _functions=[], _caches=[]):
        yield


class Calls:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, text: str) -> str:
        self.count += 1
        return text.upper()


def test_what_a_burst_left_is_dropped_when_it_is_over() -> None:
    called = Calls()
    function = cached_function(10_000)(called)
    cache: BoundedCache[int, str] = BoundedCache(10_000)
    for number in range(COUNT):
        function(str(number))
        cache.add(number, "a")
    forget_burst()  # the burst may still go on
    function("0")
    assert (called.count, len(cache)) == (COUNT, COUNT)
    function("one more")
    cache.add(COUNT, "a")
    forget_burst()
    function("0")
    assert (called.count, len(cache)) == (COUNT + 1, COUNT + 1)
    forget_burst()
    function("0")
    assert (called.count, len(cache)) == (COUNT + 2, 0)


def test_a_few_results_stay() -> None:
    called = Calls()
    function = memoized(10_000)(called)
    cache: BoundedCache[int, str] = BoundedCache(10_000)
    for _ in range(4):
        for number in range(100):
            assert function(f"a{number}") == f"A{number}"
            if number not in cache:
                cache.add(number, "a")
        forget_burst()
    assert (called.count, len(cache)) == (100, 100)


def test_a_full_cache_begins_anew() -> None:
    cache: BoundedCache[int, str] = BoundedCache(10)
    for number in range(25):
        cache.add(number, "a")
    assert sorted(cache) == [20, 21, 22, 23, 24]


def test_values_that_expire_are_kept_until_then() -> None:
    now = [100.0]
    cache: ExpiringCache[str, int] = ExpiringCache(2, lambda: now[0])
    for key, seconds, expires in (("none", 0.0, 0.0), ("past", 10.0, 100.0), ("a", 10.0, 0.0), ("b", 10.0, 105.0)):
        cache.put(key, 1, seconds, expires)
    assert (len(cache), cache.get("none"), cache.get("past")) == (2, None, None)
    now[0] = 104.9
    assert (cache.get("b"), cache.get("a")) == (1, 1)
    now[0] = 105.0
    assert (cache.get("b"), cache.get("a"), len(cache)) == (None, 1, 1)
    cache.put("c", 2, 10.0)
    cache.get("a")
    cache.put("d", 3, 10.0)
    assert (cache.get("a"), cache.get("c"), cache.get("d")) == (1, None, 3)
