"""The connections to one server (upstream: Go's ``http.Transport``); the most recently used one is taken first.

A connection that the server has closed meanwhile is noticed before it is used again, as when the server has been restarted.  When
a kept connection breaks before an answer, a GET or HEAD is sent once more, on a new connection.  A POST is never sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from kapi.request.streamed_body import StreamedBody
from kapi.wire.answer import Answer, BadAnswer
from kapi.wire.connection import Connection, has_unread_data
from kapi.wire.head import Header, request_head

#: makes a connection with a protocol factory
Connect = Callable[[IProtocolFactory], Deferred[IProtocol]]
MAX_IDLE_SECONDS = 90.0  # as in Go's transport
MAX_IDLE = 25  # connections
_SWEEP_SECONDS = 15.0
FRESH_SECONDS = 1.0  # a connection that was used so recently is not checked before it is used again
_REPEATABLE = frozenset([b"GET", b"HEAD"])  # when they have no body, as in Go


class Pool:
    """``connect`` makes a connection; those in ``idle`` can be used again, for ``idle_seconds``.

    With ``idle_seconds`` 0 each request has a connection of its own.
    """

    def __init__(self, reactor: IReactorTime, connect: Connect, idle_seconds: float = MAX_IDLE_SECONDS) -> None:
        self._reactor, self._connect, self._idle_seconds = reactor, connect, idle_seconds
        self.idle: list[Connection] = []
        self.open: set[IProtocol] = set()
        self._factory = Factory.forProtocol(lambda: Connection(self))
        self._factory.noisy = False
        self._sweeper: IDelayedCall | None = None
        self._closed: Deferred[None] | None = None

    def send(
        self, method: bytes, target: bytes, headers: Iterable[Header], body: bytes | StreamedBody | None = None
    ) -> Deferred[Answer]:
        """Sends a request; ``headers`` are all but those of its framing.  Fires when the head of the answer has come.

        A StreamedBody is sent while it arrives; its connection is not used again.  Raises BadHead; fails with BadAnswer,
        Abandoned, Stalled and errors of the connection; cancelling ends the connection.
        """
        return self.send_head(method, request_head(method, target, headers).removesuffix(b"\r\n"), body)

    def send_head(self, method: bytes, head: bytes, body: bytes | StreamedBody | None = None) -> Deferred[Answer]:
        """As ``send``, with a head that is written already up to the headers of the framing."""
        streamed = body if isinstance(body, StreamedBody) else None
        framing = b"Connection: close\r\n" if streamed is not None or not self._idle_seconds else b""
        if body is None or isinstance(body, bytes):
            if body is not None:
                framing += b"Content-Length: %d\r\n" % len(body)
            data = b"%s%s\r\n%s" % (head, framing, body or b"")
        elif body.length is None:
            data = b"%s%sTransfer-Encoding: chunked\r\n\r\n" % (head, framing)
        else:
            data = b"%s%sContent-Length: %d\r\n\r\n" % (head, framing, body.length)
        bodiless = method == b"HEAD"
        running: list[Callable[[], None]] = []  # how to stop what is in progress; empty once it was stopped
        answered: Deferred[Answer] = Deferred(lambda _: running.pop()())

        def ask(connection: Connection, first: Deferred[Answer]) -> None:
            connection.ask(data, first, bodiless)
            if streamed is not None:
                connection.upload(streamed, self._reactor)

        connection = self._kept()
        if connection is not None:
            running.append(connection.abort)
            if body is not None or method not in _REPEATABLE:
                ask(connection, answered)
                return answered

        def connect() -> None:
            connecting = self._connect(self._factory)
            running[:] = [connecting.cancel]
            connecting.addCallback(connected).addErrback(lambda why: answered.errback(why) if running else None)

        def connected(made: IProtocol) -> None:
            assert isinstance(made, Connection)
            self.open.add(made)
            running[:] = [made.abort]
            ask(made, answered)

        def broken(why: Failure) -> None:
            if why.check(BadAnswer) or self._closed is not None:
                answered.errback(why)
            else:
                connect()

        if connection is None:
            connect()
        else:
            first: Deferred[Answer] = Deferred()
            first.addCallbacks(answered.callback, broken)
            ask(connection, first)
        return answered

    def _kept(self) -> Connection | None:
        """An idle connection that the server has not closed, as far as this side can know."""
        now: float = self._reactor.seconds()
        while self.idle:
            connection = self.idle.pop()
            if now - connection.idle_since < FRESH_SECONDS or not has_unread_data(connection.transport):
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
        self.gone(connection)

    def gone(self, connection: IProtocol) -> None:
        """A connection has ended."""
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
            if not self.open and not self._closed.called:
                self._closed.callback(None)
        return self._closed
