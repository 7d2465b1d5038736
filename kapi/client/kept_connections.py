"""Which connections to one server are kept while they are idle, and for how long: the most recently used is taken first.

One that the server has closed meanwhile is noticed before it is used, so that a client follows a server that starts anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory

from kapi.client.answer import Answer
from kapi.client.connection import Answered, Connection
from kapi.client.transport import Stream

#: makes a connection with a protocol factory
Connect = Callable[[IProtocolFactory], Deferred[IProtocol]]
KEEP = 90.0  # seconds an idle connection is kept
MAX_IDLE = 25  # connections
_SWEEP_SECONDS = 15.0  # seconds
_FRESH_SECONDS = 1.0  # seconds for which a connection is believed to be as it was


class KeptConnections(Generic[Answered]):
    """``connect`` makes a connection with a protocol factory; those in ``idle`` can be used again.

    ``limit`` is of a whole answer, in bytes.
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
        """What the Deferred of a request fires with: at the end of the answer, or with its stream at the begin."""
        raise NotImplementedError

    def _ask(self, data: bytes, streaming: bool = False, bodiless: bool = False) -> Deferred[Answered]:
        """Fires as ``answered`` says; arguments as of Connection's ``ask``.

        Fails with what the connection failed with, with BadAnswer or AnswerTooLarge; cancelling ends the connection.
        """
        running: list[Callable[[], None]] = []  # how to stop what is under way; empty when it was stopped
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
        """An idle connection that the server has not closed, as far as can be known."""
        now: float = self._reactor.seconds()
        while self.idle:
            connection = self.idle.pop()
            if now - connection.since < _FRESH_SECONDS or not connection.has_news():
                return connection
            connection.abort()
        return None

    def free(self, connection: Connection[Answered]) -> None:
        """A connection has answered."""
        if self._closed is not None or len(self.idle) >= MAX_IDLE:
            connection.transport.loseConnection()
            return
        connection.since = self._reactor.seconds()
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
        """Closes what nobody used for long; the most recently used are taken first, so the oldest go."""
        self._sweeper = None
        old = self._reactor.seconds() - KEEP
        for connection in [one for one in self.idle if one.since < old]:
            self.idle.remove(connection)
            connection.transport.loseConnection()
        if self.idle:
            self._sweeper = self._reactor.callLater(_SWEEP_SECONDS, self._sweep)

    def close(self) -> Deferred[None]:
        """Closes idle connections, later those that are busy; fires when none is open."""
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
