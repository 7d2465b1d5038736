"""A bounded cache of the results of token authentication, and its metrics (upstream: apiserver ``authentication/token/cache``).

Tokens are kept as keyed digests.  An entry lives for its time to live, never beyond the token's own expiry.
A result from the cache counts as 0 seconds, as upstream, which measures whole milliseconds.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kapi.machinery.memo import ExpiringCache
from kapi.machinery.meters import DEFAULT_BOUNDS, Counter, Histogram, cumulative

Value = TypeVar("Value")


class TokenCache(ExpiringCache[bytes, Value]):
    """The results for tokens, by keyed digests that do not reveal them."""

    def __init__(self, size: int = 4096, clock: Callable[[], float] = time.time) -> None:
        super().__init__(size, clock)
        self._key = secrets.token_bytes(32)

    def digest(self, *parts: str) -> bytes:
        """The key of an entry."""
        return hmac.digest(self._key, repr(parts).encode(), hashlib.sha256)


Answer = TypeVar("Answer")
_NAME = "authentication_token_cache_"


class TokenCacheFigures(Collector):
    """Metrics of all token caches in the process."""

    def __init__(self) -> None:
        self.hits = 0
        self._fetching = 0
        self.blocked = 0  # requests that wait for a lookup, their own or a shared one
        self._fetches = Counter(_NAME + "fetch_total", "[ALPHA] ", ("status",))
        self._misses = Histogram(_NAME + "request_duration_seconds", "[ALPHA] ", (), DEFAULT_BOUNDS)

    def missed(self, seconds: float, verified: bool) -> None:
        """Counts a token that was not in the cache."""
        self._misses.observe(seconds)
        self._fetches.add("ok" if verified else "error")

    async def fetching(self, answer: Awaitable[Answer]) -> Answer:
        """Returns the result of ``answer``, from an authenticator that calls another server, and measures its time."""
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
