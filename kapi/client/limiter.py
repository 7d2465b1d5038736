"""The rate limit of a client's own requests (upstream: client-go ``util/flowcontrol``)."""

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
        """Waits until there is a token.  Returns how many seconds that took."""
        delay = self.reserve()
        if delay > 0:
            try:
                await deferLater(self._reactor, delay)
            except BaseException:
                self.give_back()
                raise
        return delay
