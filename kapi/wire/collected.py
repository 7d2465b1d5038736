"""Collects the body of an Agent's answer, up to a limit."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import ITransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import PotentialDataLoss

from kapi.wire.answer import AnswerTooLarge


def abort(transport: ITransport | None) -> None:
    """Ends the connection of an Agent's answer at once; ``loseConnection`` would wait for the server's end of TLS."""
    inner: Any = getattr(transport, "_producer", None) or transport
    (getattr(inner, "abortConnection", None) or inner.loseConnection)()


class Collected(Protocol):
    """For ``deliverBody``: ``done`` fires with the body, or with AnswerTooLarge beyond ``limit`` bytes.

    ``until_close``: a body whose end is marked only by the end of its connection is accepted.  ``cut``: ``done`` fires with the
    first ``limit`` bytes, or with fewer when the connection ends before.  ``size``: how many bytes have come.
    """

    def __init__(self, limit: int, *, until_close: bool = False, cut: bool = False) -> None:
        from twisted.web.client import ResponseDone  # imported only when it is used

        self.done: Deferred[bytes] = Deferred()
        self._limit = limit
        self._ends = (ResponseDone, PotentialDataLoss) if until_close else (ResponseDone,)
        self._parts: list[bytes] = []
        self._cut = cut
        self.size = 0
        self._over = False

    def close(self) -> None:
        """Ends the connection, when the rest of the body is not needed."""
        if not self._over and self.transport is not None:
            abort(self.transport)

    def dataReceived(self, data: bytes) -> None:
        self.size += len(data)
        if self.size < self._limit or (self.size == self._limit and not self._cut):
            self._parts.append(data)
            return
        if self.done.called:
            return
        # before the connection ends: the bytes up to there must not count as a complete answer
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
