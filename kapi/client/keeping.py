"""Which connections to one server are kept while they are idle, and for how long: the most recently used is taken first.

One that the server has closed meanwhile is noticed before it is used, so that a client follows a server that starts anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

KEEP = 90.0  # seconds an idle connection is kept
MAX_IDLE = 25  # connections
_SWEEP = 15.0  # seconds
_FRESH = 1.0  # seconds for which a connection is believed to be as it was


class Kept(Protocol):
    """A connection: idle, or busy with one request."""

    since: float  # reactor seconds of becoming idle
    transport: Any

    def has_news(self) -> bool:
        """Whether the socket holds what nobody asked for: most likely that the server has closed."""

    def abort(self) -> None:
        """Ends the connection; who waits is not told."""


C = TypeVar("C", bound=Kept)


class KeptConnections(Generic[C]):
    """The connections that ``_connected`` makes; those in ``idle`` can be used again."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.idle: list[C] = []
        self.open: set[C] = set()
        self._sweeper: IDelayedCall | None = None
        self._closed: Deferred[None] | None = None

    def _connected(self) -> Deferred[Any]:
        """Makes a connection."""
        raise NotImplementedError

    def _ask(self, ask: Callable[[C, Deferred[Any]], None]) -> Deferred[Any]:
        """The Deferred that ``ask`` is given with a connection; cancelling ends that.  It fails when none can be made."""
        running: list[Callable[[], Any]] = []  # how to stop what is under way; empty when it was stopped
        done: Deferred[Any] = Deferred(lambda _: running.pop()())
        connection = self._kept()
        if connection is not None:
            running.append(connection.abort)
            ask(connection, done)
            return done
        connecting = self._connected()

        def connected(made: Any) -> None:
            self.open.add(made)
            running[0] = made.abort
            ask(made, done)

        running.append(connecting.cancel)
        connecting.addCallback(connected).addErrback(lambda why: done.errback(why) if running else None)
        return done

    def _kept(self) -> C | None:
        """An idle connection that the server has not closed, as far as can be known."""
        now: float = self._reactor.seconds()
        while self.idle:
            connection = self.idle.pop()
            if now - connection.since < _FRESH or not connection.has_news():
                return connection
            connection.abort()
        return None

    def free(self, connection: C) -> None:
        """A connection has answered."""
        if self._closed is not None or len(self.idle) >= MAX_IDLE:
            connection.transport.loseConnection()
            return
        connection.since = self._reactor.seconds()
        self.idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._reactor.callLater(_SWEEP, self._sweep)

    def lost(self, connection: C) -> None:
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
            self._sweeper = self._reactor.callLater(_SWEEP, self._sweep)

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
