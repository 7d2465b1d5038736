"""One connection to the server: txredisapi's protocol with a lean, batching reply path.

txredisapi makes three Deferreds for a command and answers reply by reply.  Here a command is packed by hiredis, has
one Deferred, and all replies that arrive together are looked at together, so that the changes they report reach the
watch cache as one batch and before their writers go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis
import txredisapi
from twisted.internet import defer
from twisted.internet.protocol import Factory
from twisted.logger import Logger

log = Logger()

#: What a write was: kind, key, expected, head, tail, when it was sent (seconds of perf_counter), further arguments.
PendingWrite = tuple[str, str, int, bytes, bytes, float, tuple[Any, ...]]
#: A reply still to come: who waits, and for a write what it was.
Pending = tuple["defer.Deferred[Any]", "PendingWrite | None"]
ReplyHandler = Callable[["list[tuple[Pending, Any]]"], None]


class ConnectionGone(Exception):
    """The connection was lost before the reply; a write's outcome is unknown."""


class Connection(txredisapi.HiredisProtocol):  # type: ignore[misc]
    """``on_replies`` gets the batches; the default just fires the Deferreds."""

    def __init__(self) -> None:
        super().__init__(charset=None, convertNumbers=False)
        self.pending: deque[Pending] = deque()
        self.on_replies: ReplyHandler = fire
        self.lost: defer.Deferred[str] = defer.Deferred()
        self.gone = False
        self.error: Exception = ConnectionGone("the connection was lost")  # what unanswered commands fail with
        self.heard = 0  # replies so far: a watchdog sees progress by it

    def connectionMade(self) -> None:  # AUTH and SELECT are done by who connects
        self.connected = 1
        self._ready = True

    def connectionLost(self, why: Any = None) -> None:
        self.connected = 0
        self.gone = True
        reason = why.getErrorMessage() if why is not None else "closed"
        if type(self.error) is ConnectionGone:
            self.error = ConnectionGone(f"the connection was lost: {reason}")
        pending, self.pending = self.pending, deque()
        for deferred, _ in pending:
            deferred.errback(self.error)
        self.lost.callback(reason)

    def dataReceived(self, data: bytes, unpause: bool = False) -> None:
        reader = self._reader
        reader.feed(data)
        batch: list[tuple[Pending, Any]] = []
        pending = self.pending
        reply = reader.gets()
        while reply is not False:
            if not pending:
                self.transport.abortConnection()
                return
            batch.append((pending.popleft(), reply))
            reply = reader.gets()
        if batch:
            self.heard += len(batch)
            self.on_replies(batch)

    def execute_command(self, *args: Any, **kwargs: Any) -> defer.Deferred[Any]:
        """Sends a command.  Errs with ConnectionGone or the server's error (txredisapi.ResponseError)."""
        deferred: defer.Deferred[Any] = defer.Deferred()
        self.send(args, (deferred, None))
        return deferred

    def send(self, args: tuple[Any, ...], pending: Pending) -> None:
        if self.gone:
            pending[0].errback(self.error)
            return
        self.pending.append(pending)
        self.transport.write(hiredis.pack_command(args))

    def abort(self) -> None:
        if not self.gone and self.transport is not None:
            self.transport.abortConnection()


def fire(batch: list[tuple[Pending, Any]]) -> None:
    """Hands each reply to who waits for it."""
    for (deferred, _), reply in batch:
        if isinstance(reply, Exception):
            deferred.errback(reply)
        else:
            deferred.callback(reply)


class ConnectionFactory(Factory):
    noisy = False

    def buildProtocol(self, addr: Any) -> Connection:
        return Connection()
