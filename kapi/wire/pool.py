"""The connections to one server (upstream: Go's ``http.Transport``); the most recently used one is taken first.

A connection that the server has closed meanwhile is noticed before it is used again, as when the server has been restarted.  When
a kept connection breaks, its request fails: a POST is never sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory

from kapi.request.streamed_body import StreamedBody
from kapi.wire.answer import Answer
from kapi.wire.connection import Connection
from kapi.wire.head import Header, request_head

#: makes a connection with a protocol factory
Connect = Callable[[IProtocolFactory], Deferred[IProtocol]]
MAX_IDLE_SECONDS = 90.0  # as Go's transport
MAX_IDLE = 25  # connections
_SWEEP_SECONDS = 15.0
_FRESH_SECONDS = 1.0  # a connection that was used so recently is not checked before it is used again
_CLOSE: Header = (b"Connection", b"close")


class Pool:
    """``connect`` makes a connection; those in ``idle`` can be used again, for ``idle_seconds``.

    With ``idle_seconds`` 0 each request has a connection of its own.
    """

    def __init__(self, reactor: IReactorTime, connect: Connect, idle_seconds: float = MAX_IDLE_SECONDS) -> None:
        self._reactor, self._connect, self._idle_seconds = reactor, connect, idle_seconds
        self.idle: list[Connection] = []
        self.open: set[Connection] = set()
        self._factory = Factory.forProtocol(lambda: Connection(self))
        self._factory.noisy = False
        self._sweeper: IDelayedCall | None = None
        self._closed: Deferred[None] | None = None

    def send(
        self, method: bytes, target: bytes, headers: Iterable[Header], body: bytes | StreamedBody | None = None
    ) -> Deferred[Answer]:
        """Sends a request; ``headers`` are all but those of its framing.  Fires when the head of the answer has come.

        A StreamedBody is sent while it arrives, on a connection of its own.  Raises BadHead; fails with BadAnswer, Abandoned,
        Stalled and errors of the connection; cancelling ends the connection.
        """
        lines = list(headers)
        streamed = body if isinstance(body, StreamedBody) else None
        if body is None or isinstance(body, bytes):
            if body is not None:
                lines.append((b"Content-Length", b"%d" % len(body)))
        elif body.length is None:
            lines.append((b"Transfer-Encoding", b"chunked"))
        else:
            lines.append((b"Content-Length", b"%d" % body.length))
        if streamed is not None or not self._idle_seconds:
            lines.append(_CLOSE)
        head = request_head(method, target, lines)
        data = head if streamed is not None or not body else head + body  # type: ignore[operator]
        running: list[Callable[[], None]] = []  # how to stop what is in progress; empty once it was stopped
        answered: Deferred[Answer] = Deferred(lambda _: running.pop()())
        connection = None if streamed is not None else self._kept()
        if connection is not None:
            running.append(connection.abort)
            connection.ask(data, answered, method == b"HEAD")
            return answered
        connecting = self._connect(self._factory)

        def connected(made: IProtocol) -> None:
            assert isinstance(made, Connection)
            self.open.add(made)
            running[0] = made.abort
            made.ask(data, answered, method == b"HEAD")
            if streamed is not None:
                made.upload(streamed, self._reactor)

        running.append(connecting.cancel)
        connecting.addCallback(connected).addErrback(lambda why: answered.errback(why) if running else None)
        return answered

    def _kept(self) -> Connection | None:
        """An idle connection that the server has not closed, as far as this side can know."""
        now: float = self._reactor.seconds()
        while self.idle:
            connection = self.idle.pop()
            if now - connection.idle_since < _FRESH_SECONDS or not connection.has_unsolicited_data():
                return connection
            connection.abort()
        return None

    def free(self, connection: Connection) -> None:
        """A connection has answered."""
        if self._closed is not None or not self._idle_seconds or len(self.idle) >= MAX_IDLE:
            connection.transport.loseConnection()
            return
        connection.idle_since = self._reactor.seconds()
        self.idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._reactor.callLater(_SWEEP_SECONDS, self._sweep)

    def lost(self, connection: Connection) -> None:
        if connection in self.idle:
            self.idle.remove(connection)
        self.open.discard(connection)
        if not self.open and self._closed is not None and not self._closed.called:
            self._closed.callback(None)

    def _sweep(self) -> None:
        """Closes connections that have been idle for too long."""
        self._sweeper = None
        old = self._reactor.seconds() - self._idle_seconds
        for connection in [one for one in self.idle if one.idle_since < old]:
            self.idle.remove(connection)
            connection.transport.loseConnection()
        if self.idle:
            self._sweeper = self._reactor.callLater(_SWEEP_SECONDS, self._sweep)

    def forget(self) -> None:
        """Closes idle connections, which were made with old credentials."""
        idle, self.idle = self.idle, []
        for connection in idle:
            connection.abort()

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
