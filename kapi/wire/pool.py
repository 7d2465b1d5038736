"""The idle connections to one server (upstream: Go's ``http.Transport``); the most recently used one is taken first.

A connection that the server has closed meanwhile is noticed before it is used again, as when the server has been restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory

from kapi.wire.answer import Answer
from kapi.wire.connection import Answered, Connection
from kapi.wire.transport import Stream

#: makes a connection with a protocol factory
Connect = Callable[[IProtocolFactory], Deferred[IProtocol]]
MAX_IDLE_SECONDS = 90.0  # as Go's transport
MAX_IDLE = 25  # connections
_SWEEP_SECONDS = 15.0
_FRESH_SECONDS = 1.0  # a connection that was used so recently is not checked before it is used again


class KeptConnections(Generic[Answered]):
    """``connect`` makes a connection with a protocol factory; those in ``idle`` can be used again.

    ``limit`` is the size of a complete answer, in bytes.
    """

    def __init__(self, reactor: IReactorTime, connect: Connect, limit: int) -> None:
        self._reactor, self._connect, self.limit = reactor, connect, limit
        self.idle: list[Connection[Answered]] = []
        self.open: set[Connection[Answered]] = set()
        self._factory = Factory.forProtocol(lambda: Connection(self))
        self._factory.noisy = False
        self._sweeper: IDelayedCall | None = None
        self._closed: Deferred[None] | None = None

    def answered(self, answer: Answer, body: bytes, stream: Stream | None = None) -> Answered:
        """The result of a request's Deferred, at the end of the answer, or before the body of a stream."""
        raise NotImplementedError

    def _ask(self, data: bytes, streaming: bool = False, bodiless: bool = False) -> Deferred[Answered]:
        """Fires with the result of ``answered``; the arguments are those of ``Connection.ask``.

        Fails with the error of the connection, BadAnswer or AnswerTooLarge; cancelling ends the connection.
        """
        running: list[Callable[[], None]] = []  # how to stop what is in progress; empty once it was stopped
        done: Deferred[Answered] = Deferred(lambda _: running.pop()())
        connection = self._kept()
        if connection is not None:
            running.append(connection.abort)
            connection.ask(data, done, streaming, bodiless)
            return done
        connecting = self._connect(self._factory)

        def connected(made: IProtocol) -> None:
            assert isinstance(made, Connection)
            self.open.add(made)
            running[0] = made.abort
            made.ask(data, done, streaming, bodiless)

        running.append(connecting.cancel)
        connecting.addCallback(connected).addErrback(lambda why: done.errback(why) if running else None)
        return done

    def _kept(self) -> Connection[Answered] | None:
        """An idle connection that the server has not closed, as far as this side can know."""
        now: float = self._reactor.seconds()
        while self.idle:
            connection = self.idle.pop()
            if now - connection.idle_since < _FRESH_SECONDS or not connection.has_unsolicited_data():
                return connection
            connection.abort()
        return None

    def free(self, connection: Connection[Answered]) -> None:
        """A connection has answered."""
        if self._closed is not None or len(self.idle) >= MAX_IDLE:
            connection.transport.loseConnection()
            return
        connection.idle_since = self._reactor.seconds()
        self.idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._reactor.callLater(_SWEEP_SECONDS, self._sweep)

    def lost(self, connection: Connection[Answered]) -> None:
        if connection in self.idle:
            self.idle.remove(connection)
        self.open.discard(connection)
        if not self.open and self._closed is not None and not self._closed.called:
            self._closed.callback(None)

    def _sweep(self) -> None:
        """Closes connections that have been idle for too long."""
        self._sweeper = None
        old = self._reactor.seconds() - MAX_IDLE_SECONDS
        for connection in [one for one in self.idle if one.idle_since < old]:
            self.idle.remove(connection)
            connection.transport.loseConnection()
        if self.idle:
            self._sweeper = self._reactor.callLater(_SWEEP_SECONDS, self._sweep)

    def close(self) -> Deferred[None]:
        """Closes idle connections at once and busy ones after their answer; fires when none is open."""
        if self._closed is None:
            self._closed = Deferred()
            if self._sweeper is not None:
                self._sweeper.cancel()
                self._sweeper = None
            idle, self.idle = self.idle, []
            for connection in idle:
                connection.transport.loseConnection()
            if not self.open:
                self._closed.callback(None)
        return self._closed
