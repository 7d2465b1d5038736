"""WATCH over a WebSocket, as fabric8's Java client asks for it: one text message an event.

Upstream: ``endpoints/handlers/watch.go`` (HandleWS), over golang.org/x/net/websocket, whose handshake rules these are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from wsproto.frame_protocol import CloseReason, FrameProtocol
from wsproto.utilities import generate_accept_token
from zope.interface import implementer

from kapi.endpoints.tunnel import NotUpgradable, TakenConnection
from kapi.endpoints.watch_form import message
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.response import StreamResponse

_VERSION = "13"


def websocket_response(
    ctx: RequestContext, events: Callable[[HTTPRequest], Awaitable[None]], binary: bool, head: int
) -> StreamResponse:
    """101, and then a message for each event that ``events`` writes to the request that it gets; ``binary``: no text.

    ``head``: bytes at the beginning of an event that a message does not need.

    Raises BadRequest and Forbidden for an invalid handshake.
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
    greeting = b"\r\n".join(lines) + b"\r\n\r\n"

    def run(http: HTTPRequest) -> Awaitable[None]:
        try:
            return events(
                cast(HTTPRequest, WatchSocket(http, greeting, binary, head))
            )  # it has the methods that they use
        except NotUpgradable:  # HTTP/2 has no upgrade: send the events as for any watch
            http.setResponseCode(200)
            return events(http)

    return StreamResponse(run, 101)


class BadFrame(Exception):
    """A client breaks the protocol."""


_CLOSE, _PING, _PONG = 8, 9, 10
_OPCODES = frozenset((0, 1, 2, _CLOSE, _PING, _PONG))


class ClientFrames:
    """Finds ping and close frames among the client's frames, and skips the others, which a watch does not use.

    A library would decode each frame; one read may have thousands of them, which takes 50 ms.
    """

    def __init__(self) -> None:
        self._begun = b""  # the beginning of a frame's head
        self._skipped = 0  # bytes of a frame's content that are still to be skipped
        self.closed = False

    def receive(self, data: bytes) -> bytes | None:
        """The content of the last ping; its answer also answers the pings before it (RFC 6455, 5.5.3).  Raises BadFrame."""
        data = self._begun + data
        at, end, ping = 0, len(data), None
        while not self.closed:
            if self._skipped:
                at, self._skipped = min(end, at + self._skipped), max(0, self._skipped - (end - at))
            if end - at < 2:
                break
            first, second = data[at], data[at + 1]
            opcode, length = first & 0x0F, second & 0x7F
            if first & 0x70 or opcode not in _OPCODES or not second & 0x80:
                raise BadFrame
            if opcode >= _CLOSE:
                if length > 125 or not first & 0x80:
                    raise BadFrame
                if end - at < 6 + length:
                    break
                if opcode == _PING:
                    ping = at, length
                self.closed = opcode == _CLOSE
                at += 6 + length
                continue
            extended = {126: 2, 127: 8}.get(length, 0)
            if end - at < 6 + extended:
                break
            self._skipped = int.from_bytes(data[at + 2 : at + 2 + extended]) if extended else length
            at += 6 + extended
        self._begun = data[at:]
        return None if ping is None else _unmasked(data[ping[0] + 2 : ping[0] + 6 + ping[1]])


def _unmasked(masked: bytes) -> bytes:
    return bytes(byte ^ masked[number % 4] for number, byte in enumerate(masked[4:]))


@implementer(IPushProducer)
class WatchSocket(TakenConnection):
    """The part of a Twisted request that a stream of events uses; each event is a message.

    While the client does not read, nothing is read from it: each of its pings would make another waiting answer.
    """

    def __init__(self, http: HTTPRequest, greeting: bytes, binary: bool, head: int) -> None:
        super().__init__(http)
        self._binary = binary
        self._head = head
        self._frames = FrameProtocol(client=False, extensions=[])  # for control frames that are sent
        self._received = ClientFrames()
        self._producer: IPushProducer | None = None
        self._closed = False
        self._paused = False
        self.transport.write(greeting)

    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None:
        self._producer = producer
        self.transport.registerProducer(self, streaming)
        self.dataReceived(self.early())
        if not (self._paused or self._closed):
            self.transport.resumeProducing()

    def pauseProducing(self) -> None:
        self._paused = True
        self.transport.pauseProducing()
        if self._producer is not None:
            self._producer.pauseProducing()

    def resumeProducing(self) -> None:
        self._paused = False
        self.transport.resumeProducing()
        if self._producer is not None:
            self._producer.resumeProducing()

    def stopProducing(self) -> None:
        if self._producer is not None:
            self._producer.stopProducing()

    def unregisterProducer(self) -> None:
        self._producer = None
        self.transport.unregisterProducer()

    def write(self, data: bytes) -> None:
        """Sends an event."""
        self._send(message(data, self._binary, self._head))

    def message_writer(self) -> Callable[[bytes], None]:
        """A function that sends events that are messages already."""
        return self._send

    def _send(self, frames: bytes) -> None:
        if not self._closed:
            self.transport.write(frames)

    def finish(self) -> None:
        self._close(CloseReason.NORMAL_CLOSURE)

    def _close(self, reason: CloseReason) -> None:
        if not self._closed:
            self._closed = True
            self.transport.write(bytes(self._frames.close(reason)))
            self.transport.loseConnection()

    def dataReceived(self, data: bytes) -> None:
        """Answers pings, and ends the watch at a close; other frames are ignored."""
        if self._closed:
            return
        try:
            ping = self._received.receive(data)
        except BadFrame:
            self._end(CloseReason.PROTOCOL_ERROR)
            return
        if self._received.closed:
            self._end(CloseReason.NORMAL_CLOSURE)
        elif ping is not None:
            self.transport.write(bytes(self._frames.pong(ping)))

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
