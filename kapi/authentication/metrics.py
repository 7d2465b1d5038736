"""Tokens whose verification is remembered (upstream: apiserver ``authentication/token/cache/stats.go``).

Upstream measures in whole milliseconds, which is nothing for what is found in memory; so it is here.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kapi.machinery.meters import DEFAULT_BOUNDS, Counter, Histogram, cumulative

Answer = TypeVar("Answer")
_NAME = "authentication_token_cache_"


class TokenCacheFigures(Collector):
    """Of all caches of tokens in the process."""

    def __init__(self) -> None:
        self.hits = 0
        self._fetching = 0
        self.blocked = 0  # requests that wait for what was asked, for them or for others
        self._fetches = Counter(_NAME + "fetch_total", "[ALPHA] ", ("status",))
        self._misses = Histogram(_NAME + "request_duration_seconds", "[ALPHA] ", (), DEFAULT_BOUNDS)

    def missed(self, seconds: float, verified: bool) -> None:
        """A token was looked into, as it was not remembered."""
        self._misses.observe(seconds)
        self._fetches.add("ok" if verified else "error")

    async def fetching(self, answer: Awaitable[Answer]) -> Answer:
        """The same answer, of an authenticator that asks another server; its time is measured."""
        began, verified = time.monotonic(), False
        self._fetching += 1
        try:
            found = await answer
            verified = True
            return found
        finally:
            self._fetching -= 1
            self.missed(time.monotonic() - began, verified)

    def collect(self) -> Iterator[Metric]:
        row = self._misses.rows[()]
        misses = sum(row[:-1])
        requests = CounterMetricFamily(_NAME + "request_total", "[ALPHA] ", labels=("status",))
        seconds = HistogramMetricFamily(_NAME + "request_duration_seconds", "[ALPHA] ", labels=("status",))
        hits = [float(self.hits), *[0.0] * (len(DEFAULT_BOUNDS) + 1)]
        for status, count, counts in (("hit", self.hits, hits), ("miss", misses, row)):
            requests.add_metric([status], count)
            seconds.add_metric([status], cumulative(DEFAULT_BOUNDS, counts), counts[-1])
        yield requests
        yield seconds
        yield from self._fetches.collect()
        active = GaugeMetricFamily(_NAME + "active_fetch_count", "[ALPHA] ", labels=("status",))
        active.add_metric(["in_flight"], self._fetching)
        active.add_metric(["blocked"], self.blocked)
        yield active


TOKEN_CACHES = TokenCacheFigures()
