"""Growing waits before requests to a server that is overloaded or away (upstream: client-go ``rest/urlbackoff.go``)."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

NO_ANSWER = 0


class Backoff:
    """``first`` seconds after a failure, twice as many after each further one, at most ``longest``.

    An answer of 429 or 5xx and no answer are failures.  Any other answer ends the waiting; so do ``2 * longest`` seconds
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
