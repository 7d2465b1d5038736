"""Waits before a client's requests: the rate limit, and growing waits for a server that is overloaded or not available.

Upstream: client-go ``util/flowcontrol``, ``rest/urlbackoff.go``.
"""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater


class TokenBucket:
    """``qps`` tokens are added per second, up to ``burst``; each request takes one, in the order in which the requests come."""

    def __init__(self, reactor: IReactorTime, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError("a token bucket needs a rate above 0 and a capacity of one token at least")
        self._reactor = reactor
        self._qps, self._burst = qps, burst
        self._tokens, self._since = float(burst), reactor.seconds()

    def reserve(self) -> float:
        """Takes a token.  Returns the seconds until it may be used."""
        now = self._reactor.seconds()
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._qps) - 1
        self._since = now
        return max(0.0, -self._tokens / self._qps)

    def give_back(self) -> None:
        """Returns a token that was not used."""
        self._tokens = min(self._burst, self._tokens + 1)

    async def wait(self) -> float:
        """Waits for a token.  Returns the seconds of the wait."""
        delay = self.reserve()
        if delay > 0:
            try:
                await deferLater(self._reactor, delay)
            except BaseException:
                self.give_back()
                raise
        return delay


NO_ANSWER = 0


class Backoff:
    """``first`` seconds after a failure, twice as many after each further one, at most ``longest``.

    An answer of 429 or 5xx and a missing answer are failures.  Other answers reset the backoff, and so do ``2 * longest`` seconds
    without a failure.
    """

    def __init__(self, reactor: IReactorTime, first: float, longest: float) -> None:
        if not 0 < first <= longest:
            raise ValueError("the first wait is longer than 0 and not longer than the longest")
        self._reactor, self._first, self._longest = reactor, first, longest
        self._wait = self._failed_at = 0.0

    async def wait(self) -> None:
        left = self._failed_at + self._wait - self._reactor.seconds() if self._wait else 0.0
        if left > 0:
            await deferLater(self._reactor, left)

    def answered(self, code: int) -> None:
        """Records the status code of an answer, or NO_ANSWER."""
        if code != NO_ANSWER and code != 429 and code < 500:
            self._wait = 0.0
            return
        now = self._reactor.seconds()
        if now - self._failed_at > 2 * self._longest:
            self._wait = 0.0
        self._wait, self._failed_at = min(self._longest, self._wait * 2 or self._first), now
