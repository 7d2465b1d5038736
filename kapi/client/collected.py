"""The body of an Agent's answer as a whole, bounded."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import ITransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import PotentialDataLoss

from kapi.client.answer import AnswerTooLarge


def abort(transport: ITransport | None) -> None:
    """Ends the connection under an Agent's answer at once; its own way waits for the server to agree."""
    inner: Any = getattr(transport, "_producer", None) or transport
    (getattr(inner, "abortConnection", None) or inner.loseConnection)()


class Collected(Protocol):
    """For ``deliverBody``: ``done`` fires with the body, or with AnswerTooLarge beyond ``limit`` bytes.

    ``until_close``: a body that only the end of its connection ends counts as well.  ``cut``: only the first ``limit`` bytes are
    wanted, or what has come of them when the connection ends.  ``size``: bytes that have come.
    """

    def __init__(self, limit: int, *, until_close: bool = False, cut: bool = False) -> None:
        from twisted.web.client import ResponseDone  # for those alone who use it

        self.done: Deferred[bytes] = Deferred()
        self._limit = limit
        self._ends = (ResponseDone, PotentialDataLoss) if until_close else (ResponseDone,)
        self._parts: list[bytes] = []
        self._cut = cut
        self.size = 0
        self._over = False

    def close(self) -> None:
        """Ends the connection of a body that is not wanted any more."""
        if not self._over and self.transport is not None:
            abort(self.transport)

    def dataReceived(self, data: bytes) -> None:
        self.size += len(data)
        if self.size < self._limit or (self.size == self._limit and not self._cut):
            self._parts.append(data)
            return
        if self.done.called:
            return
        # first: what comes with the end of the connection must not pass for a whole answer
        if self._cut:
            self._parts.append(data)
            self.done.callback(b"".join(self._parts)[: self._limit])
        else:
            self._parts.clear()
            self.done.errback(AnswerTooLarge(f"the answer is larger than {self._limit} bytes"))
        abort(self.transport)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._over = True
        if self.done.called:
            return
        if self._cut or reason.check(*self._ends):
            self.done.callback(b"".join(self._parts))
        else:
            self.done.errback(reason)
