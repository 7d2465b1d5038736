"""Tunnels a client's connection to a backend after an upgrade.

The tunnel opens only after the backend's own ``101 Switching Protocols``.  After any other response both connections end.
Otherwise a client could send further requests to the backend over a connection that was never upgraded (CVE-2018-1002105).  The
bytes per second in each direction may be limited (upstream: apimachinery ``util/proxy``, ``flowrate``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.internet.protocol import Protocol
from twisted.internet.protocol import connectionDone as CLEAN
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.request import departure
from kapi.request.context import RequestContext
from kapi.request.headers import all_headers
from kapi.request.http import HTTPRequest
from kapi.request.pending import BACKEND_BYTES, Pending, PendingBytes
from kapi.request.transport import StreamTransport, close_when_sent
from kapi.wire.answer import Answer, BadAnswer, Body, next_head


@implementer(IPushProducer)
class Throttle:
    """A producer in place of a connection's ``transport``: it pauses for the consumer, and for the limit.

    Call ``passed`` with the number of bytes that were received.
    """

    def __init__(self, transport: IPushProducer, bytes_per_second: int, clock: IReactorTime) -> None:
        self._transport = transport
        self._rate = bytes_per_second
        self._clock = clock
        self._free = -math.inf  # when more bytes are within the limit
        self._timer: IDelayedCall | None = None
        self._full = False  # whether the consumer has paused
        self._over = False

    def passed(self, count: int) -> None:
        if self._over:
            return
        now = self._clock.seconds()
        self._free = max(now, self._free) + count / self._rate
        if self._timer is None:
            self._transport.pauseProducing()
            self._timer = self._clock.callLater(self._free - now, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        left = self._free - self._clock.seconds()
        if left > 0:  # some bytes arrived after the pause
            self._timer = self._clock.callLater(left, self._go_on)
        elif not self._full:
            self._transport.resumeProducing()

    def pauseProducing(self) -> None:
        self._full = True
        self._transport.pauseProducing()

    def resumeProducing(self) -> None:
        self._full = False
        if self._timer is None:
            self._transport.resumeProducing()

    def stopProducing(self) -> None:
        self.close()
        self._transport.stopProducing()

    def release(self) -> None:
        """Called when the other end has closed: reads without a limit until the connection ends."""
        if not self._over:
            self.close()
            self._transport.resumeProducing()

    def close(self) -> None:
        """Called when the connection is lost."""
        self._over = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


MAX_BODY_BYTES = 64 * 1024  # of the body of an answer without an upgrade
CLOSE_TIMEOUT = 60.0  # seconds for the last bytes to one end when the other has closed
Limit = Callable[[IPushProducer], Throttle]  # of a transport


class NotUpgradable(Exception):
    """The client's connection cannot be taken over (HTTP/2 has no upgrade)."""


def wants_upgrade(ctx: RequestContext) -> bool:
    """Whether a request asks for an upgrade to another protocol."""
    wanted = bool(ctx.header("upgrade"))
    return wanted and any("upgrade" in value.lower() for value in all_headers(ctx, "connection"))


def wants_websocket(ctx: RequestContext) -> bool:
    """Whether a request asks for an upgrade to a WebSocket."""
    return wants_upgrade(ctx) and (ctx.header("upgrade") or "").lower() == "websocket"


class TakenConnection:
    """A client's connection, taken over from HTTP; received bytes go to the ``dataReceived`` of a subclass."""

    def __init__(self, http: HTTPRequest) -> None:
        channel: Any = getattr(http, "channel", None)
        transport = getattr(channel, "transport", None)
        owner = getattr(transport, "wrappedProtocol", None)
        if transport is None or owner is None or not hasattr(channel, "unread"):
            raise NotUpgradable("the connection cannot be upgraded")
        self.transport = transport
        self._waiting: bytes = channel.unread()
        transport.unregisterProducer()
        owner.channel = self
        owner.dataReceived = self.dataReceived

    def early(self) -> bytes:
        """The bytes that the client sent before it got the response; returned only once."""
        waiting, self._waiting = self._waiting, b""
        return waiting

    def dataReceived(self, data: bytes) -> None:
        """Called with bytes from the client."""

    def connectionLost(self, reason: Failure = CLEAN) -> None:
        """Called when the client has gone."""

    def close_when_idle(self) -> None:
        self.transport.loseConnection()


class _Leaving:
    """Closes a connection after its last bytes are sent; aborts it when they are not read in time."""

    def __init__(self, transport: StreamTransport, reactor: IReactorTime) -> None:
        close_when_sent(transport)
        self._call: IDelayedCall = reactor.callLater(CLOSE_TIMEOUT, transport.abortConnection)

    def over(self) -> None:
        if self._call.active():
            self._call.cancel()


@implementer(IPushProducer)
class _Direction:
    """One direction of a tunnel: a producer in place of ``source`` that ``sink``, the other end, pauses.

    The reactor does not report the end of a paused connection.  So ``source`` is checked, and when its peer has closed and
    ``sink`` takes nothing for CLOSE_TIMEOUT, both connections end.  ``producer`` is what is paused: ``source`` or its throttle.
    ``pending`` counts what a paused backend holds.
    """

    def __init__(
        self,
        source: StreamTransport,
        producer: IPushProducer,
        sink: StreamTransport,
        reactor: IReactorTime,
        pending: Pending | None = None,
    ) -> None:
        self._pending = pending
        self._held: PendingBytes | None = None  # while it is paused
        self._source = source
        self._producer = producer
        self._sink = sink
        self._reactor = reactor
        self._paused = False
        self._left = False  # whether the peer's end was seen during this pause
        self._timer: IDelayedCall | None = None

    def pauseProducing(self) -> None:
        self._paused = True
        if self._pending is not None:
            self._held = PendingBytes(self._pending, BACKEND_BYTES)
        self._producer.pauseProducing()
        if self._timer is None:
            self._timer = self._reactor.callLater(departure.LOOK_SECONDS, self._look)

    def resumeProducing(self) -> None:
        self._paused = self._left = False
        self._held = None
        self._producer.resumeProducing()

    def begin(self) -> None:
        """Starts reading, unless the first bytes were too many for the other end."""
        if not self._paused:
            self._producer.resumeProducing()

    def stopProducing(self) -> None:
        self.close()
        self._producer.stopProducing()

    def close(self) -> None:
        """Called when either end is lost."""
        self._held = None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if not self._paused:
            return
        wait = departure.LOOK_SECONDS
        if departure.has_left(self._source):
            if self._left:
                self._source.abortConnection()
                self._sink.abortConnection()
                return
            self._left = True
            wait = CLOSE_TIMEOUT
        self._timer = self._reactor.callLater(wait, self._look)


class Peer(Protocol):
    """The other end of a tunnel."""

    transport: StreamTransport

    def leave(self) -> None:
        """Called when the client has gone."""
        raise NotImplementedError


class _Tunnelled(TakenConnection):
    """The client's end of a tunnel: received bytes are written to ``peer``."""

    endless = True  # only its two ends know when a tunnel is done, so a stopping server does not wait for it

    def __init__(self, http: HTTPRequest, peer: Peer, reactor: IReactorTime, limit: Limit | None = None) -> None:
        super().__init__(http)
        self._peer = peer
        self._reactor = reactor
        self._leaving: _Leaving | None = None
        self._gone = False
        self._throttle = None if limit is None else limit(self.transport)
        self._peers: Throttle | None = None
        self._directions: tuple[_Direction, ...] = ()

    def begin(self, peers: Throttle | None = None) -> None:
        """Passes on the client's early bytes, and starts reading; ``peers`` is the throttle of the peer."""
        client, backend = self.transport, self._peer.transport
        assert backend is not None
        self._peers = peers
        there = _Direction(client, self._throttle or client, backend, self._reactor)
        pending: Pending | None = getattr(client, "pending", None)
        back = _Direction(backend, peers or backend, client, self._reactor, pending)
        self._directions = (there, back)
        backend.registerProducer(there, True)
        client.registerProducer(back, True)
        early = self.early()
        if early:
            backend.write(early)
        there.begin()

    def end(self) -> None:
        """Called when the peer has gone."""
        self._close_directions()
        if self._throttle is not None:
            self._throttle.release()
        if not self._gone:
            self._leaving = _Leaving(self.transport, self._reactor)

    def _close_directions(self) -> None:
        for direction in self._directions:
            direction.close()

    def close_when_idle(self) -> None:
        """Does nothing: a tunnel goes on until the server stops."""

    def dataReceived(self, data: bytes) -> None:
        if self._peer.transport is not None:
            self._peer.transport.write(data)
        if self._throttle is not None:
            self._throttle.passed(len(data))

    def connectionLost(self, reason: Failure = CLEAN) -> None:
        self._gone = True
        self._close_directions()
        if self._leaving is not None:
            self._leaving.over()
        if self._throttle is not None:
            self._throttle.close()
        if self._peers is not None:
            self._peers.release()
        self._peer.leave()


class TunnelBackend(Peer):
    """The backend's end of a tunnel: sends the request, and reads the head of the response.

    ``decided`` fires with the response's head and the beginning of its body; after 101 the tunnel is open already.  ``limit``
    makes the throttle of each end.
    """

    def __init__(self, http: HTTPRequest, request: bytes, reactor: IReactorTime, limit: Limit | None = None) -> None:
        self._reactor = reactor
        self._leaving: _Leaving | None = None
        self._lost = False
        self._limit = limit
        self._throttle: Throttle | None = None
        self._http = http
        self._request = request
        self._raw = b""  # all received bytes, until ``decided`` fires
        self._taken: _Tunnelled | None = None
        self._refusal: Answer | None = None
        self._body: Body | None = None
        self._start = b""
        self.decided: Deferred[tuple[Answer, bytes]] = Deferred(lambda _: self._give_up())

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(self._request)

    def dataReceived(self, data: bytes) -> None:
        if self._taken is not None:
            self._taken.transport.write(data)
            if self._throttle is not None:
                self._throttle.passed(len(data))
            return
        if self.decided.called:
            return
        try:
            if self._body is None:
                self._raw += data
                self._read_head()
            else:
                self._body.read(data)
        except (BadAnswer, NotUpgradable) as error:
            self._fail(error)

    def _read_head(self) -> None:
        answer, rest = next_head(self._raw)
        if answer is None:
            return
        if answer.code == 101:
            self._taken = _Tunnelled(self._http, self, self._reactor, self._limit)
            self._taken.transport.write(self._raw)
            if self._limit is not None:
                self._throttle = self._limit(self.transport)
            self._taken.begin(self._throttle)
            self._decide(answer)
            return
        bodiless = self._request.startswith(b"HEAD ")
        self._refusal = answer
        self._body = Body(answer, self._collect, lambda _: self._decide(answer), bodiless=bodiless)
        self._body.read(rest)

    def _collect(self, data: bytes) -> None:
        """Collects the beginning of the body of a response other than 101."""
        assert self._refusal is not None
        self._start += data[: MAX_BODY_BYTES - len(self._start)]
        if len(self._start) == MAX_BODY_BYTES:
            self._decide(self._refusal)

    def _decide(self, answer: Answer) -> None:
        if self.decided.called:
            return
        self._raw, self._body = b"", None
        if answer is self._refusal:
            assert self.transport is not None
            self.transport.abortConnection()
        self.decided.callback((answer, self._start))

    def _fail(self, error: Exception) -> None:
        if self.decided.called:  # the rest of a body that is long enough
            return
        self._raw, self._body = b"", None
        self.decided.errback(error)
        assert self.transport is not None
        self.transport.abortConnection()

    def _give_up(self) -> None:
        """Called when ``decided`` is cancelled."""
        if self.transport is not None:
            self.transport.abortConnection()

    def leave(self) -> None:
        if not self._lost:
            self._leaving = _Leaving(self.transport, self._reactor)

    def connectionLost(self, reason: Failure = CLEAN) -> None:
        self._lost = True
        if self._leaving is not None:
            self._leaving.over()
        if self._throttle is not None:
            self._throttle.close()
        if self._taken is not None:
            self._taken.end()
        elif not self.decided.called:
            if self._refusal is not None:
                self._decide(self._refusal)
            else:
                self.decided.errback(reason)
