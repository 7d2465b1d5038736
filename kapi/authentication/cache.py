"""A bounded memory of what tokens were good for, and its figures (upstream: apiserver ``authentication/token/cache``).

Tokens are kept as keyed digests.  An entry lives for its time to live, never beyond the token's own expiry.
Upstream measures in whole milliseconds, which is nothing for what is found in memory; so it is here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kapi.machinery.meters import DEFAULT_BOUNDS, Counter, Histogram, cumulative

Value = TypeVar("Value")


class ExpiringCache(Generic[Value]):
    """Least recently used out first."""

    def __init__(self, size: int = 4096, clock: Callable[[], float] = time.time) -> None:
        self._size = size
        self._clock = clock
        self._entries: OrderedDict[bytes, tuple[float, Value]] = OrderedDict()
        self._key = secrets.token_bytes(32)

    def __len__(self) -> int:
        return len(self._entries)

    def digest(self, *parts: str) -> bytes:
        """The key of an entry: nothing of the parts can be read from it."""
        message = b"".join(
            len(data).to_bytes(8, "big") + data for data in (part.encode("utf-8", "surrogateescape") for part in parts)
        )
        return hmac.digest(self._key, message, hashlib.sha256)

    def get(self, digest: bytes) -> Value | None:
        entry = self._entries.get(digest)
        if entry is None:
            return None
        if entry[0] <= self._clock():
            del self._entries[digest]
            return None
        self._entries.move_to_end(digest)
        return entry[1]

    def put(self, digest: bytes, value: Value, seconds: float, expires: float = 0.0) -> None:
        """``expires``: unix seconds beyond which it must not live; 0 = not limited."""
        end = self._clock() + seconds
        if expires:
            end = min(end, expires)
        if end <= self._clock():
            return
        self._entries[digest] = (end, value)
        self._entries.move_to_end(digest)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)


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
