"""Hits, misses and fetches of the caches of verified tokens."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred

from kapi.authentication.cache import TokenCache, TokenCacheFigures
from kapi.authentication.interface import AuthenticationError
from kapi.machinery.meters import DEFAULT_BOUNDS


def value(figures: TokenCacheFigures, name: str, status: str) -> float:
    (found,) = [
        sample.value
        for family in figures.collect()
        for sample in family.samples
        if sample.name == f"authentication_token_cache_{name}"
        and sample.labels.get("status") == status
        and "le" not in sample.labels
    ]
    return found


def test_a_full_cache_forgets_what_was_used_least_recently() -> None:
    cache: TokenCache[str] = TokenCache(2, lambda: 0.0)
    for key in (b"a", b"b"):
        cache.put(key, key.decode(), 10)
    assert cache.get(b"a") == "a"
    cache.put(b"c", "c", 10)
    assert [cache.get(key) for key in (b"a", b"b", b"c")] == ["a", None, "c"]


def test_who_has_to_be_asked_is_a_fetch() -> None:
    figures = TokenCacheFigures()
    figures.hits += 2
    asked: Deferred[str] = Deferred()
    answer = Deferred.fromCoroutine(figures.fetching(asked))
    assert value(figures, "active_fetch_count", "in_flight") == 1
    asked.callback("jane")
    results: list[str] = []
    answer.addCallback(results.append)
    assert results == ["jane"]
    assert (value(figures, "request_total", "hit"), value(figures, "request_total", "miss")) == (2, 1)
    assert (value(figures, "fetch_total", "ok"), value(figures, "active_fetch_count", "in_flight")) == (1, 0)
    assert value(figures, "request_duration_seconds_count", "hit") == 2


def test_a_token_that_is_refused_is_an_error() -> None:
    figures = TokenCacheFigures()

    async def refuse() -> str:
        raise AuthenticationError("no")

    with pytest.raises(AuthenticationError):
        figures.fetching(refuse()).send(None)
    assert value(figures, "fetch_total", "error") == 1


def test_hits_take_no_time() -> None:
    figures = TokenCacheFigures()
    figures.hits += 3
    (family,) = (each for each in figures.collect() if each.name.endswith("request_duration_seconds"))
    found = [(sample.name, sample.value) for sample in family.samples if sample.labels["status"] == "hit"]
    buckets = [value for name, value in found if name.endswith("_bucket")]
    assert len(buckets) == len(DEFAULT_BOUNDS) + 1 and set(buckets) == {3}
    assert [(name.rpartition("_")[2], value) for name, value in found if not name.endswith("_bucket")] == [
        ("count", 3), ("sum", 0),
    ]  # fmt: skip
