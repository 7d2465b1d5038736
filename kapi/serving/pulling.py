"""Asks for the parts of long answers over HTTP/1.1, each when the client has taken those before it.

Twisted's channel would leave that to a cooperator: a call of the reactor's for every answer, and thirty calls of functions for
every part.  Here an answer sends parts for as long as its turn lasts, which is all of them for most pages of a list; the rest
waits for its flow's next turn.
"""

from __future__ import annotations

from typing import Protocol

from twisted.internet.interfaces import IPullProducer, IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from kapi.process.shares import Flow
from kapi.process.turn import Turn

log = Logger()


class PulledTransport(Protocol):
    """The transport (TLSConnection); ``flow`` is that of its last request."""

    flow: Flow

    def abortConnection(self) -> None: ...


@implementer(IPushProducer)
class Pull:
    """One answer, whose parts ``producer`` writes.  For its channel it is a push producer."""

    __slots__ = ("_paused", "_producer", "_transport", "_turn", "_waits")

    def __init__(self, producer: IPullProducer, transport: PulledTransport, turn: Turn) -> None:
        self._producer: IPullProducer | None = producer
        self._transport = transport
        self._turn = turn
        self._paused = False
        self._waits = False  # for its turn

    @property
    def _wants(self) -> bool:
        """Whether the client takes more."""
        return self._producer is not None and not self._paused

    def _send(self) -> None:
        """Sends parts until the client takes no more, or the turn is over."""
        self._waits = False
        while self._wants:
            self._ask()
            if self._turn.over():
                break
        if self._wants:
            self._waits = True
            self._turn.wait(self._send, self._transport.flow)

    def _ask(self) -> None:
        """Writes a part."""
        try:
            assert self._producer is not None
            self._producer.resumeProducing()
        except Exception:
            log.failure("an answer was broken off by a fault of the server's")
            self.forget()
            self._transport.abortConnection()

    def forget(self) -> None:
        """There are no more parts, or nobody takes them."""
        self._producer = None

    # -- for the channel

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        if not self._waits and self._producer is not None:
            self._waits = True
            self._turn.run(self._send, self._transport.flow)

    def stopProducing(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
