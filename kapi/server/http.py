"""Connections: HTTP/1.1 and HTTP/2 over one TLS port (upstream: apiserver ``server/secure_serving.go``).

The protocol is chosen by ALPN with the first bytes.  Everything a client can hold on to is bounded: header size and count,
the time for a header and for a body, idle time, streams of an HTTP/2 connection.
"""

from __future__ import annotations

from typing import Any

from hyperframe.frame import GoAwayFrame
from twisted.internet import protocol
from twisted.logger import Logger
from twisted.web import http
from twisted.web._http2 import H2Connection

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
STREAMS = 100  # concurrent streams of an HTTP/2 connection


class Channel(http.HTTPChannel):  # type: ignore[misc]
    """HTTP/1.1, with a deadline for each part of a request and none for its answer."""

    MAX_LENGTH = LINE_BYTES
    totalHeadersSize = HEADER_BYTES
    maxHeaders = HEADERS
    requestFactory: type[APIRequest]
    owner: Connections
    _deadline: Any = None

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if self._deadline is None and not self._handlingRequest:
            self._deadline = self.callLater(HEAD_TIMEOUT, self._too_slow)
        super().dataReceived(data)

    def allHeadersReceived(self) -> None:  # noqa: N802
        self._set_deadline(BODY_TIMEOUT)
        super().allHeadersReceived()

    def allContentReceived(self) -> None:  # noqa: N802
        self._set_deadline(0)
        if self.owner.closing:
            self.persistent = False
            self.requests[-1].responseHeaders.setRawHeaders(b"connection", [b"close"])
        super().allContentReceived()

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            if self._deadline.active():
                self._deadline.cancel()
            self._deadline = None
        if seconds:
            self._deadline = self.callLater(seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._deadline = None
        if self.transport is not None:
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.timeoutConnection()

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: N802
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
        self.loseConnection()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        self._set_deadline(0)
        super().connectionLost(reason)

    @property
    def busy(self) -> bool:
        return bool(self.requests)

    def close_when_idle(self) -> None:
        """Ends the connection as soon as the request in hand is answered."""
        if not self.busy:
            self.loseConnection()


class Http2(H2Connection):  # type: ignore[misc]
    """HTTP/2: a stream that waits for events keeps its connection alive."""

    owner: Connections
    _leaving = False

    def connectionMade(self) -> None:  # noqa: N802
        self.conn.local_settings.max_concurrent_streams = self.owner.max_streams
        super().connectionMade()

    def timeoutConnection(self) -> None:  # noqa: N802
        if self.streams:
            self.setTimeout(self.timeOut)
            return
        super().timeoutConnection()

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

    def _requestDone(self, streamID: int) -> None:  # noqa: N802, N803
        super()._requestDone(streamID)
        if self._leaving and not self.streams and self.transport is not None:
            self.transport.loseConnection()


class Negotiator(protocol.Protocol):
    """Waits for the handshake, then is the channel that ALPN chose."""

    def __init__(self, owner: Connections) -> None:
        self.owner = owner
        self.channel: Any = None
        self._deadline: Any = None

    def connectionMade(self) -> None:  # noqa: N802
        self._deadline = self.owner.runner.reactor.callLater(HANDSHAKE_TIMEOUT, self._silent)
        self.owner.open.add(self)

    def _silent(self) -> None:
        self._deadline = None
        assert self.transport is not None
        self.transport.abortConnection()  # type: ignore[attr-defined]

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
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
        channel.makeConnection(self.transport)
        if chosen == b"h2":
            self.transport.registerProducer(channel, True)  # type: ignore[union-attr]
        self.dataReceived = channel.dataReceived  # type: ignore[method-assign]
        channel.dataReceived(data)

    def connectionLost(self, reason: Any = protocol.connectionDone) -> None:  # noqa: N802
        self.owner.open.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self.channel is not None:
            self.channel.connectionLost(reason)

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
        self.closing = False
        self.request_class = type("BoundRequest", (APIRequest,), {"runner": runner})

    def buildProtocol(self, addr: Any) -> Negotiator:  # noqa: N802
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

    def abort_all(self) -> None:
        for connection in list(self.open):
            if connection.transport is not None:
                connection.transport.abortConnection()  # type: ignore[attr-defined]
