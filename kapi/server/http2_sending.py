"""When an HTTP/2 connection sends what its streams have: in its flow's turn, and several frames at a time.

The stock loop sends one frame and comes back with the next turn of the reactor, so that an answer took two turns at least and
all answers of a connection took them one after the other: beside a hundred busy connections it had hardly any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from kapi.flowcontrol.rounds import Rounds
from kapi.flowcontrol.shares import Flow

log = Logger()
_LEAST = 8  # frames that are sent in a turn, if there are so many
_MOST = 64


class Sending:
    """Stands for the reactor towards the loop.  ``transport`` is the connection's: its flows are what is sent for."""

    def __init__(self, reactor: Any, transport: Any) -> None:
        self._reactor = reactor
        self._transport = transport
        self._rounds: Rounds | None = getattr(transport, "rounds", None)
        self._step: Callable[[], None] | None = None  # the next frame
        self._scheduled = False
        self.flow: Flow | None = None
        self.seconds = reactor.seconds

    def callLater(self, delay: float, function: Callable[[], None]) -> None:
        """The loop has more to send, or will see that it has not; it never has a delay."""
        self._step = function
        if not self._scheduled:
            self._scheduled = True
            self._schedule()

    def _schedule(self) -> None:
        rounds = self._rounds
        if rounds is not None and rounds.shared():
            self.flow = self._transport.flows[0]
            rounds.wait(self)
        else:
            self._reactor.callLater(0, self.take_turn)

    def take_turn(self) -> None:
        over = self._rounds.over if self._rounds is not None else _never
        try:
            for count in range(_MOST):
                step, self._step = self._step, None
                if step is None:
                    break
                step()
                if count >= _LEAST and over():
                    break
        except Exception:  # the loop has ended: nothing more would leave on this connection
            log.failure("a connection was lost by a fault of the server's")
            self._transport.abortConnection()
            return
        if self._step is None:
            self._scheduled = False
        else:
            self._schedule()


def _never() -> bool:
    return False
