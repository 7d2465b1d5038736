"""Collects the body of an answer, up to a limit."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from kapi.wire.answer import Answer, AnswerTooLarge, done


class Collected(Protocol):
    """For ``deliverBody``: ``done`` fires with the body, or with AnswerTooLarge beyond ``limit`` bytes.

    ``cut``: ``done`` fires with the first ``limit`` bytes, or with fewer when the connection ends before.  ``size``: how many
    bytes have come.  Cancelling ``done`` ends the connection.
    """

    transport: Any  # an Answer, or what stands for it behind a decoder

    def __init__(self, limit: int, *, cut: bool = False) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: self.transport.abortConnection())
        self._limit = limit
        self._parts: list[bytes] = []
        self._cut = cut
        self.size = 0

    def read(self, answer: Answer) -> Deferred[bytes]:
        """As ``deliverBody`` does, without the modules that it needs."""
        self.makeConnection(answer)  # type: ignore[no-untyped-call]
        answer.read(self.dataReceived, self.finish)
        return self.done

    def connectionMade(self) -> None:
        length = getattr(self.transport, "length", 0)
        if isinstance(length, int) and length > self._limit and not self._cut:
            self._refuse()

    def _refuse(self) -> None:
        self._parts.clear()
        self.done.errback(AnswerTooLarge(f"the answer is larger than {self._limit} bytes"))
        self.transport.abortConnection()

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
            self.transport.abortConnection()
        else:
            self._refuse()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.finish(None if reason.type is done().type else reason)

    def finish(self, why: Failure | None) -> None:
        """Called at the end; ``why`` is what has cut the body off."""
        if self.done.called:
            return
        if self._cut or why is None:
            self.done.callback(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
        else:
            self.done.errback(why)
