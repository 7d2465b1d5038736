"""The connections to one server that chooses between HTTP/2 and HTTP/1.1 in the handshake (upstream: ``net/http`` over TLS).

Over HTTP/2 requests share a connection up to the number of streams that the server allows; more requests open another one.
While it is not known what the server speaks, requests wait for the first connection.  A request that the server has refused, or
has not seen before it went away, is sent again, as Go does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from typing import NoReturn

from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener, INegotiated, IProtocol, IProtocolFactory, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.request.streamed_body import StreamedBody
from kapi.request.transport import StreamTransport
from kapi.wire.answer import Answer, BadAnswer
from kapi.wire.connection import Connection, has_unread_data
from kapi.wire.http2.client import FIRST_STREAMS, Http2Client, Unprocessed
from kapi.wire.pool import FRESH_SECONDS, MAX_IDLE, Connect, Pool

log = Logger()
_JOIN_SECONDS = 1.0  # a connection that takes longer to be made is waited for by no further request: it may never be
HANDSHAKE_SECONDS = 10.0  # the longest time that a handshake may take, as in Go's default transport
_REPEATED_BODY = (
    "http2: Transport: cannot retry err [{}] after Request.Body was written; define Request.GetBody to avoid this error"
)
_MAX_ATTEMPTS = 8  # of a request that the server does not process: at once, then after 1, 2, 4... seconds


@cache
def offered_protocols() -> tuple[bytes, ...]:
    """The protocols that a handshake offers: none while the environment has DISABLE_HTTP2, for servers to speak HTTP/1.1."""
    if not os.environ.get("DISABLE_HTTP2"):
        return b"h2", b"http/1.1"
    log.info("HTTP2 has been explicitly disabled")
    return ()


class _SpeaksHttp2(Exception):
    """A server that has spoken HTTP/1.1 before has chosen HTTP/2."""


def _late(result: object, seconds: float) -> NoReturn:
    raise BadAnswer("net/http: TLS handshake timeout")


class _Request:
    """A request until its answer begins.  ``stop`` ends what is in progress."""

    def __init__(self, method: bytes, head: bytes, body: bytes | StreamedBody | None) -> None:
        self.method, self.head, self.body = method, head, body
        self.attempts = 0
        self.stop: Callable[[], None] = lambda: None
        self.answered: Deferred[Answer] = Deferred(lambda _: self.stop())


class _Dial:
    """A connection that is being made, and the requests that wait for it."""

    def __init__(self, connecting: Deferred[IProtocol], began: float) -> None:
        self._connecting = connecting
        self.began = began  # reactor seconds
        self.waiting: list[_Request] = []

    def add(self, request: _Request) -> None:
        self.waiting.append(request)
        request.stop = partial(self._leave, request)

    def _leave(self, request: _Request) -> None:
        self.waiting.remove(request)
        if not self.waiting:
            self._connecting.cancel()


class _TLSTransport(StreamTransport, INegotiated):
    """A connection with what the server has chosen in the handshake."""


@implementer(IHandshakeListener)
class _Negotiation(protocol.Protocol):
    """A connection until its handshake is done; ``done`` fires with the protocol that ``choose`` makes then."""

    transport: _TLSTransport

    def __init__(self, choose: Callable[[bytes | None], protocol.Protocol]) -> None:
        self._choose = choose
        self._chosen: protocol.Protocol | None = None
        self.done: Deferred[IProtocol] = Deferred(lambda _: self.transport.abortConnection())

    def handshakeCompleted(self) -> None:
        if not self.done.called:
            self._chosen = chosen = self._choose(self.transport.negotiatedProtocol)
            chosen.makeConnection(self.transport)
            self.done.callback(chosen)

    def dataReceived(self, data: bytes) -> None:
        if self._chosen is not None:
            self._chosen.dataReceived(data)

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        if self._chosen is not None:
            self._chosen.connectionLost(reason)
        elif not self.done.called:
            self.done.errback(reason)


class NegotiatingPool(Pool):
    """``connect`` makes connections over TLS whose handshake offers ``offered_protocols()``."""

    def __init__(self, reactor: IReactorTime, connect: Connect) -> None:
        super().__init__(reactor, self._connect_http1)
        self._negotiations = protocol.Factory.forProtocol(lambda: _Negotiation(self._choose))
        self._negotiations.noisy = False
        self._dial = connect
        self._dials: list[_Dial] = []
        self._shared: list[Http2Client] = []  # those that take requests
        self._streams = FIRST_STREAMS  # requests that a new connection is expected to take
        self._http1 = False  # what the server spoke last

    def send_head(self, method: bytes, head: bytes, body: bytes | StreamedBody | None = None) -> Deferred[Answer]:
        """As ``Pool.send_head``; cancelling ends only the request, not a shared connection."""
        if self._http1:
            sent = super().send_head(method, head, body)
            return sent.addErrback(self._changed, method, head, body)
        request = _Request(method, head, body)
        self._place(request)
        return request.answered

    def _changed(self, why: Failure, method: bytes, head: bytes, body: bytes | StreamedBody | None) -> Deferred[Answer]:
        why.trap(_SpeaksHttp2)  # before anything was sent
        sent = self.send_head(method, head, body)
        if self._closed is not None:
            self.close()  # the new connection ends after this request
        return sent

    def _place(self, request: _Request) -> None:
        """Gives a request to a connection, or lets it wait for a new one."""
        shared = self._usable()
        if shared is not None:
            first: Deferred[Answer] = Deferred()
            request.stop = shared.ask(request.head, request.body, first, request.method == b"HEAD").abort
            first.addCallbacks(request.answered.callback, partial(self._failed, request))
            return
        now: float = self._reactor.seconds()
        for dial in self._dials:
            if len(dial.waiting) < self._streams and now - dial.began < _JOIN_SECONDS:
                dial.add(request)
                return
        connecting = self._negotiated()
        dial = _Dial(connecting, now)
        self._dials.append(dial)
        dial.add(request)
        connecting.addCallbacks(partial(self._connected, dial), partial(self._not_connected, dial))

    def _usable(self) -> Http2Client | None:
        """A connection that takes a request, and that the server has not closed, as far as this side can know."""
        now: float = self._reactor.seconds()
        for shared in list(self._shared):
            if not shared.streams and now - shared.idle_since >= FRESH_SECONDS and has_unread_data(shared.transport):
                shared.leave()
            elif shared.takes():
                return shared
        return None

    def _failed(self, request: _Request, why: Failure) -> None:
        request.attempts += 1
        if why.check(Unprocessed) is None:
            request.answered.errback(why)
        elif isinstance(request.body, StreamedBody):
            request.answered.errback(Failure(BadAnswer(_REPEATED_BODY.format(why.getErrorMessage()))))
        elif request.attempts >= _MAX_ATTEMPTS or self._closed is not None:
            request.answered.errback(Failure(BadAnswer(why.getErrorMessage())))
        elif request.attempts == 1:
            self._place(request)
        else:
            request.stop = self._reactor.callLater(2.0 ** (request.attempts - 2), self._place, request).cancel

    # -- connections

    def _negotiated(self) -> Deferred[IProtocol]:
        """Fires with a Connection or an Http2Client after its handshake."""

        def negotiating(made: IProtocol) -> Deferred[IProtocol]:
            assert isinstance(made, _Negotiation)
            return made.done.addTimeout(HANDSHAKE_SECONDS, self._reactor, _late)

        return self._dial(self._negotiations).addCallback(negotiating)

    def _choose(self, chosen: bytes | None) -> protocol.Protocol:
        self._http1 = chosen != b"h2"
        return Connection(self) if self._http1 else Http2Client(self, self._reactor, self._streams)

    def _connected(self, dial: _Dial, made: IProtocol) -> None:
        self._dials.remove(dial)
        self.open.add(made)
        if isinstance(made, Http2Client):
            self._shared.append(made)
            while dial.waiting:  # a callback may cancel the next request
                self._place(dial.waiting.pop(0))
            if self._closed is not None:
                made.leave()
            return
        assert isinstance(made, Connection)
        self.free(made)
        while dial.waiting:
            request = dial.waiting.pop(0)
            sent = self.send_head(request.method, request.head, request.body)
            request.stop = sent.cancel
            sent.addCallbacks(request.answered.callback, request.answered.errback)

    def _not_connected(self, dial: _Dial, why: Failure) -> None:
        self._dials.remove(dial)
        while dial.waiting:
            dial.waiting.pop(0).answered.errback(why)

    def _connect_http1(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """The ``connect`` of Pool for a server that has spoken HTTP/1.1.  Fails with _SpeaksHttp2."""

        def made(found: IProtocol) -> IProtocol:
            if isinstance(found, Http2Client):
                self.open.add(found)
                self._shared.append(found)
                raise _SpeaksHttp2
            return found

        return self._negotiated().addCallback(made)

    def allows(self, streams: int) -> None:
        self._streams = max(1, streams)

    def rests(self, connection: Http2Client) -> None:
        if len(self._shared) > MAX_IDLE < sum(not shared.streams for shared in self._shared):
            connection.leave()

    def leaving(self, connection: Http2Client) -> None:
        if connection in self._shared:
            self._shared.remove(connection)

    def ended(self, connection: Http2Client) -> None:
        self.gone(connection)

    def forget(self) -> None:
        """Closes idle connections, which were made with old credentials, and busy ones when their requests are answered."""
        super().forget()
        for shared in list(self._shared):
            shared.leave()

    def close(self) -> Deferred[None]:
        closed = super().close()
        for shared in list(self._shared):
            shared.leave()
        return closed
