"""WATCH over a WebSocket, as fabric8's Java client asks for it: one text message an event.

Upstream: ``endpoints/handlers/watch.go`` (HandleWS), over golang.org/x/net/websocket, whose handshake rules these are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed
from wsproto.utilities import generate_accept_token

from kapi.endpoints.tunnel import NotUpgradable, TakenConnection
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.response import StreamResponse

_VERSION = "13"


def websocket_response(ctx: RequestContext, events: Callable[[HTTPRequest], Awaitable[None]]) -> StreamResponse:
    """101 and then what ``events`` writes to the request it is given, each line a message.

    Raises BadRequest and Forbidden for a handshake that is none.
    """
    if ctx.header("sec-websocket-version") != _VERSION:
        raise status.bad_request("missing or bad WebSocket Version")
    key = ctx.header("sec-websocket-key")
    if not key:
        raise status.bad_request("mismatch challenge/response")
    if not ctx.header("origin"):
        raise status.Forbidden("null origin")
    protocols = [name for name in (ctx.header("sec-websocket-protocol") or "").replace(" ", "").split(",") if name]
    if len(protocols) > 1:
        raise status.bad_request("missing or bad WebSocket-Protocol")
    lines = [
        b"HTTP/1.1 101 Switching Protocols",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Accept: " + generate_accept_token(key.encode("latin-1")),
        *(b"Sec-WebSocket-Protocol: " + name.encode("latin-1") for name in protocols),
    ]
    head = b"\r\n".join(lines) + b"\r\n\r\n"

    def run(http: HTTPRequest) -> Awaitable[None]:
        try:
            return events(cast(HTTPRequest, WatchSocket(http, head)))  # it has what they use
        except NotUpgradable:  # HTTP/2 knows no upgrade: the events come as those of any watch
            http.setResponseCode(200)
            return events(http)

    return StreamResponse(run, 101)


class WatchSocket(TakenConnection):
    """The part of a Twisted request that a stream of events uses; each line is a message."""

    def __init__(self, http: HTTPRequest, head: bytes) -> None:
        super().__init__(http)
        self._frames = FrameProtocol(client=False, extensions=[])
        self._producer: IPushProducer | None = None
        self._closed = False
        self.transport.write(head)

    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None:
        self._producer = producer
        self.transport.registerProducer(producer, streaming)
        self.dataReceived(self.early())
        self.transport.resumeProducing()

    def unregisterProducer(self) -> None:
        self._producer = None
        self.transport.unregisterProducer()

    def write(self, data: bytes) -> None:
        if data and not self._closed:
            lines = data.decode().split("\n")[:-1]  # JSON has no line ends inside, but may have other separators
            self.transport.write(b"".join([bytes(self._frames.send_data(line + "\n")) for line in lines]))

    def finish(self) -> None:
        self._close(CloseReason.NORMAL_CLOSURE)

    def _close(self, reason: CloseReason) -> None:
        if not self._closed:
            self._closed = True
            self.transport.write(bytes(self._frames.close(reason)))
            self.transport.loseConnection()

    def dataReceived(self, data: bytes) -> None:
        """Pings are answered, a close ends the watch; whatever else a client says is not listened to."""
        if self._closed:
            return
        try:
            self._frames.receive_bytes(data)
            for frame in self._frames.received_frames():
                if frame.opcode is Opcode.PING:
                    assert isinstance(frame.payload, (bytes, bytearray))
                    self.transport.write(bytes(self._frames.pong(bytes(frame.payload))))
                elif frame.opcode is Opcode.CLOSE:
                    self._end(CloseReason.NORMAL_CLOSURE)
        except ParseFailed as error:
            self._end(error.code)

    def _end(self, reason: CloseReason) -> None:
        producer = self._producer
        self._close(reason)
        if producer is not None:
            self.unregisterProducer()
            producer.stopProducing()

    def close_when_idle(self) -> None:
        self._end(CloseReason.GOING_AWAY)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._closed = True
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
