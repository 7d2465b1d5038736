"""Connections: HTTP/1.1 and HTTP/2 over one TLS port (upstream: apiserver ``server/secure_serving.go``).

The protocol is chosen by ALPN with the first bytes.  Everything a client can hold on to is bounded: header size and count,
the time for a header and for a body, idle time, streams of an HTTP/2 connection.
"""

from __future__ import annotations

import re
from typing import Any

from hyperframe.frame import GoAwayFrame
from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.protocols import basic
from twisted.python.failure import Failure
from twisted.web import http
from twisted.web._http2 import H2Connection

from kapi.machinery.meters import Counter
from kapi.server.request import APIRequest
from kapi.server.runner import RequestRunner

log = Logger()
IDLE_TIMEOUT = 90.0  # seconds a connection may stay open without a request
HEAD_TIMEOUT = 32.0  # seconds from the first byte of a request to the end of its header
BODY_TIMEOUT = 60.0  # seconds for a body
HANDSHAKE_TIMEOUT = 32.0
HEADER_BYTES = 1 << 20  # request line and headers; upstream's default
HEADERS = 500
LINE_BYTES = 64 * 1024  # of a request line or one header
_SWEEP = 1.0  # seconds
_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT", b"PATCH", b"DELETE"})
_LENGTH = frozenset({b"content-length", b"Content-Length", b"CONTENT-LENGTH"})
_DIGITS = 9  # of a length that needs no second look
#: headers that change how the request is read: such requests take the careful way
_PARTICULAR = frozenset(
    variant
    for name in (b"transfer-encoding", b"connection", b"expect", b"upgrade")
    for variant in (name, name.title(), name.upper())
)
_NAME = re.compile(
    rb"(?!(?i:content-length|transfer-encoding|connection|expect|upgrade)\Z)[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"
).match
STREAMS = 100  # concurrent streams of an HTTP/2 connection


class Channel(http.HTTPChannel):
    """HTTP/1.1, with a deadline for each part of a request and none for its answer.

    The stock channel arms and cancels a timer several times a request; here a connection only notes since when it waits for
    what, and one sweep over all connections looks at that.
    """

    MAX_LENGTH = LINE_BYTES
    totalHeadersSize = HEADER_BYTES
    maxHeaders = HEADERS
    requestFactory: type[APIRequest]
    owner: Connections
    single_write = True  # see APIRequest.write
    _since = 0.0  # reactor seconds; 0 while a request is being answered
    _patience = IDLE_TIMEOUT
    _peer: Any = None
    _resting = False  # not looked at by the sweep until the request in hand is answered

    def connectionMade(self) -> None:
        self.timeOut = None
        self._since = self.owner.now
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        if not self._handlingRequest:
            if self._patience == IDLE_TIMEOUT:
                self._since, self._patience = self.owner.now, HEAD_TIMEOUT
            if not self._buffer and self.line_mode and not self.requests and self._whole_request(data):
                return
        # the stock method would re-arm its timer first
        basic.LineReceiver.dataReceived(self, data)

    def _whole_request(self, data: bytes) -> bool:
        """A request that came in one piece; False leaves it to the line by line way, errors included."""
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        parts = lines[0].split(b" ")
        if (
            len(parts) != 3
            or parts[0] not in _METHODS
            or parts[2] != b"HTTP/1.1"
            or not self.persistent
            or len(lines) > HEADERS
            or len(data) > LINE_BYTES
            or not parts[1].startswith(b"/")
        ):
            return False
        length: int | None = None
        headers = []
        for line in lines[1:]:
            name, mark, value = line.partition(b":")
            value = value.strip(b" \t")
            if name in _LENGTH:
                if length is not None or not value.isdigit() or len(value) > _DIGITS:
                    return False
                length = int(value)
            elif (
                not mark or name in _PARTICULAR or not _NAME(name) or b"\n" in value or b"\r" in value or b"\0" in value
            ):
                return False
            headers.append((name, value))
        if len(data) != len(head) + 4 + (length or 0):
            return False  # there is more to come, or another request behind it
        request = self.requestFactory(self, False)
        add = request.requestHeaders.addRawHeader
        for name, value in headers:
            add(name, value)
        self.requests.append(request)
        request.gotLength(len(body))
        if body:
            request.handleContentChunk(body)
        self._since = 0.0
        self._begin(request)
        self._handlingRequest = True
        self.setRawMode()
        request.requestReceived(parts[0], parts[1], parts[2])
        return True

    def _begin(self, request: APIRequest) -> None:
        if self.owner.closing:
            self.persistent = False
            request.responseHeaders.setRawHeaders(b"connection", [b"close"])

    def allHeadersReceived(self) -> None:
        self._since, self._patience = self.owner.now, BODY_TIMEOUT
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        self._since = 0.0
        self._begin(self.requests[-1])
        super().allContentReceived()

    def requestDone(self, request: APIRequest) -> None:
        self._since, self._patience = self.owner.now, IDLE_TIMEOUT
        if self._resting:
            self._resting = False
            self.owner.watched.add(self)
        super().requestDone(request)

    def getPeer(self) -> Any:
        """The client's address, asked of the socket once."""
        if self._peer is None:
            self._peer = super().getPeer()
        return self._peer

    def sweep(self, now: float) -> None:
        """Ends the connection when its client has taken too long."""
        if not self._since:
            self._resting = True
            self.owner.watched.discard(self)
            return
        if now - self._since < self._patience or self.transport is None:
            return
        self._since = 0.0
        if self._patience != IDLE_TIMEOUT:
            transport: Any = self.transport
            transport.write(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        self.timeoutConnection()

    def lineLengthExceeded(self, line: bytes) -> None:
        transport: Any = self.transport
        transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
        self.loseConnection()

    @property
    def busy(self) -> bool:
        return bool(self.requests)

    def close_when_idle(self) -> None:
        """Ends the connection as soon as the request in hand is answered."""
        if not self.busy:
            self.loseConnection()


class Http2(H2Connection):
    """HTTP/2, with the deadlines of HTTP/1.1: for a header block, for a body, and for a connection without streams.

    Frames that ask for nothing (PING, SETTINGS) keep no connection alive; a stream that waits for events does.
    """

    owner: Connections
    leave_soon = False  # after the next answer
    _leaving = False
    _idle_since = 0.0  # reactor seconds; 0 while there are streams
    _head_since = 0.0  # reactor seconds; 0 while no header block is half received

    def connectionMade(self) -> None:
        self.conn.local_settings.max_concurrent_streams = self.owner.max_streams
        self.timeOut = None
        self._idle_since = self.owner.now
        #: the streams whose bodies are not complete, with the reactor seconds of their beginning
        self._bodies: dict[int, float] = {}
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        if not self.conn.incoming_buffer._headers_buffer:
            self._head_since = 0.0
        elif not self._head_since:
            self._head_since = self.owner.now

    def _requestReceived(self, event: Any) -> None:
        super()._requestReceived(event)
        self._idle_since = 0.0
        if event.stream_ended is None:
            self._bodies[event.stream_id] = self.owner.now

    def _requestEnded(self, event: Any) -> None:
        self._bodies.pop(event.stream_id, None)
        super()._requestEnded(event)

    def sweep(self, now: float) -> None:
        """Ends what its client has taken too long for."""
        if self.transport is None:
            return
        late = self._head_since and now - self._head_since >= HEAD_TIMEOUT
        if late or (self._idle_since and now - self._idle_since >= IDLE_TIMEOUT):
            self.owner.watched.discard(self)
            self.timeoutConnection()
            return
        for stream in [stream for stream, since in self._bodies.items() if now - since >= BODY_TIMEOUT]:
            self.streams[stream].connectionLost(Failure(ConnectionLost("the body did not come")))
            self.abortRequest(stream)

    @property
    def busy(self) -> bool:
        return bool(self.streams)

    def go_away(self) -> None:
        """Tells the client to open a new connection for what comes next; streams that run go on."""
        if self._leaving or self.transport is None:
            return
        self._leaving = True
        frame = GoAwayFrame(0)
        frame.last_stream_id = self.conn.highest_inbound_stream_id
        self.transport.write(frame.serialize())
        if not self.streams:
            self.transport.loseConnection()

    close_when_idle = go_away

    def _requestDone(self, streamID: int) -> None:
        super()._requestDone(streamID)
        self._bodies.pop(streamID, None)
        if not self.streams:
            self._idle_since = self.owner.now
        if self.leave_soon:
            self.go_away()
        if self._leaving and not self.streams and self.transport is not None:
            self.transport.loseConnection()


class Negotiator(protocol.Protocol):
    """Waits for the handshake, then is the channel that ALPN chose."""

    def __init__(self, owner: Connections) -> None:
        self.owner = owner
        self.channel: Any = None
        self._since = owner.now

    def connectionMade(self) -> None:
        self.owner.open.add(self)
        self.owner.watched.add(self)

    def sweep(self, now: float) -> None:
        """Ends the connection when its client says nothing."""
        if now - self._since >= HANDSHAKE_TIMEOUT and self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]

    def dataReceived(self, data: bytes) -> None:
        chosen = getattr(self.transport, "negotiatedProtocol", None)
        owner = self.owner
        channel: Any
        if chosen == b"h2":
            channel = Http2(owner.runner.reactor)
        else:
            channel = Channel()
        channel.owner = owner
        channel.requestFactory = owner.request_class
        channel.factory = owner
        channel.site = None
        channel.callLater = owner.runner.reactor.callLater
        channel.timeOut = IDLE_TIMEOUT
        self.channel = channel
        owner.watched.discard(self)
        owner.watched.add(channel)
        channel.makeConnection(self.transport)
        if chosen == b"h2":
            self.transport.registerProducer(channel, True)  # type: ignore[union-attr]
        self.dataReceived = channel.dataReceived  # type: ignore[method-assign]
        channel.dataReceived(data)

    def connectionLost(self, reason: Any = protocol.connectionDone) -> None:
        self.owner.closed(self)
        if self.channel is not None:
            self.channel.connectionLost(reason)
        elif not getattr(self.transport, "established", True):
            self.owner.handshake_errors.add()

    @property
    def busy(self) -> bool:
        return self.channel is not None and self.channel.busy

    def close_when_idle(self) -> None:
        if self.channel is not None:
            self.channel.close_when_idle()
        elif self.transport is not None:
            self.transport.loseConnection()


class Connections(protocol.ServerFactory):
    """All connections of a listening port."""

    noisy = False

    def __init__(self, runner: RequestRunner, max_streams: int = STREAMS) -> None:
        self.runner = runner
        self.max_streams = max_streams or STREAMS
        self.open: set[Negotiator] = set()
        #: connections on which something has a deadline: the idle watches of thousands of clients are not among them
        self.watched: set[Any] = set()
        self._all_closed: Deferred[None] | None = None
        self.handshake_errors = Counter(
            "apiserver_tls_handshake_errors_total",
            "[ALPHA] Number of requests dropped with 'TLS handshake error from' error",
        )
        self.closing = False
        #: reactor seconds, as of the last sweep
        self.now = runner.reactor.seconds()
        self._sweeper = LoopingCall(self._sweep)
        self._sweeper.clock = runner.reactor
        self.request_class = type("BoundRequest", (APIRequest,), {"runner": runner})

    def startFactory(self) -> None:
        self._sweeper.start(_SWEEP)

    def stopFactory(self) -> None:
        if self._sweeper.running:
            self._sweeper.stop()

    def _sweep(self) -> None:
        self.now = now = self.runner.reactor.seconds()
        for connection in list(self.watched):
            connection.sweep(now)

    def buildProtocol(self, addr: Any) -> Negotiator:
        connection = Negotiator(self)
        connection.factory = self
        return connection

    def log(self, request: Any) -> None:
        """The request log is a filter's business."""

    def close_idle(self) -> None:
        """From now on a connection ends with the answer that is under way."""
        self.closing = True
        for connection in list(self.open):
            connection.close_when_idle()

    def closed(self, connection: Negotiator) -> None:
        self.open.discard(connection)
        self.watched.discard(connection)
        self.watched.discard(connection.channel)
        if not self.open and self._all_closed is not None and not self._all_closed.called:
            self._all_closed.callback(None)

    def all_closed(self) -> Deferred[None]:
        """Fires when no connection is open any more."""
        self._all_closed = Deferred()
        if not self.open:
            self._all_closed.callback(None)
        return self._all_closed

    def abort_all(self) -> None:
        for connection in list(self.open):
            if connection.transport is not None:
                connection.transport.abortConnection()  # type: ignore[attr-defined]
