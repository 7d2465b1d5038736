"""A WebSocket to an API server: messages out and in (upstream: client-go ``transport/websocket``, RFC 6455)."""

from __future__ import annotations

import os
from base64 import b64encode
from collections import deque
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed
from wsproto.utilities import generate_accept_token
from zope.interface import implementer

from kapi.request.transport import StreamTransport, close_when_sent
from kapi.wire.answer import Answer, BadAnswer, Body, next_head
from kapi.wire.head import request_head
from kapi.wire.transport import Header, Response

MAX_REFUSAL = 64 * 1024  # bytes of an answer that is no upgrade
MAX_MESSAGE = 16 * 1024 * 1024  # bytes
MAX_BUFFERED = 1024 * 1024  # bytes of messages that wait for their reader before the sender is made to wait
CLOSE_TIMEOUT_SECONDS = 5.0  # for the other end to answer a close frame


class WebSocketClosed(Exception):
    """The other end has closed the connection without a close frame, or with one that names an error."""


@implementer(IPushProducer)
class WebSocket(Protocol):
    """``opened`` fires with this object when the server accepts the WebSocket, or with its Response when it refuses.

    ``protocol`` is the subprotocol that the server has chosen.
    """

    transport: StreamTransport

    def __init__(
        self, reactor: IReactorTime, method: str, target: str, headers: Sequence[Header], protocols: Sequence[str]
    ) -> None:
        self._reactor = reactor
        self._key = b64encode(os.urandom(16))
        self._protocols = list(protocols)
        more: list[Header] = [
            (b"Connection", b"Upgrade"),
            (b"Upgrade", b"websocket"),
            (b"Sec-WebSocket-Version", b"13"),
            (b"Sec-WebSocket-Key", self._key),
            (b"Sec-WebSocket-Protocol", ", ".join(protocols).encode("ascii")),
        ]
        self._request = request_head(method.encode("ascii"), target.encode("ascii"), [*headers, *more])
        self.opened: Deferred[WebSocket | Response] = Deferred(lambda _: self.abort())
        self.protocol = ""
        self._raw = b""  # the received part of the answer's head, and the bytes after it
        self._answer: Answer | None = None  # set when the server refuses
        self._refusal_body: Body | None = None  # until it is complete
        self._refusal: list[bytes] = []  # the received pieces of its body
        self._refusal_length = 0  # of those, in bytes
        self._frames: FrameProtocol | None = None
        self._part: list[bytes] = []
        self._size = 0
        self._messages: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._reader: Deferred[None] | None = None
        self._drained: Deferred[None] | None = None
        self._full = False
        self._end: Exception | None = None
        self._ended = False
        self._closing: IDelayedCall | None = None  # ends the connection when the other end does not

    # the transport

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)
        self.transport.write(self._request)

    def pauseProducing(self) -> None:
        self._full = True

    def resumeProducing(self) -> None:
        self._full = False
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.callback(None)

    def stopProducing(self) -> None:
        self.resumeProducing()

    def dataReceived(self, data: bytes) -> None:
        try:
            if self._frames is None:
                self._handshake(data)
            else:
                self._receive(data)
        except (BadAnswer, ParseFailed) as problem:
            self._finish(problem if isinstance(problem, BadAnswer) else BadAnswer(str(problem)))
            self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._closing is not None and self._closing.active():
            self._closing.cancel()
        answer = self._answer
        if answer is not None and not self.opened.called:
            self.opened.callback(Response(answer.code, answer.headers, b"".join(self._refusal)))
        self.resumeProducing()
        self._finish(WebSocketClosed("the connection was lost"))

    # the handshake

    def _handshake(self, data: bytes) -> None:
        if self._answer is None:
            self._raw += data
            answer, self._raw = next_head(self._raw)
            if answer is None:
                return
            if answer.code == 101:
                self._agree(answer)
                return
            self._begin_refusal(answer)
            data = self._raw
        self._read_refusal(data)

    def _begin_refusal(self, answer: Answer) -> None:
        self._answer = answer
        self._refusal_body = Body(answer, self._add_to_refusal, self._end_refusal)

    def _add_to_refusal(self, data: bytes) -> None:
        self._refusal.append(data[: MAX_REFUSAL - self._refusal_length])
        self._refusal_length += len(self._refusal[-1])
        if self._refusal_length == MAX_REFUSAL:
            self._end_refusal()

    def _read_refusal(self, data: bytes) -> None:
        if self._refusal_body is not None:
            self._refusal_body.read(data)

    def _end_refusal(self, rest: bytes = b"") -> None:
        """Called when the body is complete, or its first MAX_REFUSAL bytes.  The decoder of chunks gives the bytes after it."""
        self._refusal_body = None
        close_when_sent(self.transport)

    def _agree(self, answer: Answer) -> None:
        def header(name: bytes) -> bytes:
            return (answer.headers.getRawHeaders(name) or [b""])[0]

        if header(b"upgrade").lower() != b"websocket" or header(b"sec-websocket-accept") != generate_accept_token(
            self._key
        ):
            raise BadAnswer("the answer to the request for a WebSocket is none")
        self.protocol = header(b"sec-websocket-protocol").decode("ascii", "replace")
        if self.protocol not in self._protocols:
            raise BadAnswer(f"the server has chosen the protocol {self.protocol!r}, which was not requested")
        rest, self._raw = self._raw, b""
        self._frames = FrameProtocol(client=True, extensions=[])
        self.opened.callback(self)
        if rest:
            self._receive(rest)

    # messages

    def _receive(self, data: bytes) -> None:
        assert self._frames is not None
        self._frames.receive_bytes(data)
        for frame in self._frames.received_frames():
            if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION):
                self._add(frame.payload, frame.message_finished)
            elif frame.opcode is Opcode.PING and frame.frame_finished:
                payload: Any = frame.payload
                self._write(self._frames.pong(bytes(payload)))
            elif frame.opcode is Opcode.CLOSE:
                self._closed(*frame.payload)
                return

    def _add(self, payload: Any, finished: bool) -> None:
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        self._part.append(data)
        self._size += len(data)
        if self._size > MAX_MESSAGE:
            raise BadAnswer(f"a message is larger than {MAX_MESSAGE} bytes")
        if not finished:
            return
        self._messages.append(b"".join(self._part))
        self._buffered += self._size
        self._part, self._size = [], 0
        if self._buffered > MAX_BUFFERED and not self._paused:
            self._paused = True
            self.transport.pauseProducing()
        self._wake()

    def _closed(self, code: int, reason: str | None) -> None:
        """A close frame has come."""
        assert self._frames is not None
        if self._closing is None:
            self._write(self._frames.close(CloseReason.NORMAL_CLOSURE))
        fine = code in (CloseReason.NORMAL_CLOSURE, CloseReason.GOING_AWAY, CloseReason.NO_STATUS_RCVD)
        self._finish(None if fine else WebSocketClosed(reason or f"closed with code {int(code)}"))
        close_when_sent(self.transport)

    def _finish(self, why: Exception | None) -> None:
        if self._ended:
            return
        self._ended, self._end = True, why
        if not self.opened.called:
            self.opened.errback(Failure(why or WebSocketClosed("closed")))
        self._wake()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.callback(None)

    def _write(self, data: bytes | bytearray) -> None:
        if self.transport is not None and not self._ended:
            self.transport.write(bytes(data))

    def _forget(self, reader: Deferred[None]) -> None:
        self._reader = None

    async def read(self) -> bytes | None:
        """The next message, None after a normal close.  Only one reader at a time.  Raises WebSocketClosed and BadAnswer."""
        while not self._messages:
            if self._ended:
                if self._end is not None:
                    raise self._end
                return None
            assert self._reader is None, "one reader at a time"
            self._reader = Deferred(self._forget)
            await self._reader
        message = self._messages.popleft()
        self._buffered -= len(message)
        if self._paused and self._buffered < MAX_BUFFERED // 2:
            self._paused = False
            if not self._ended:
                self.transport.resumeProducing()
        return message

    async def send(self, message: bytes) -> None:
        """Sends a message; waits while the connection takes no more data.  Raises WebSocketClosed."""
        if self._ended or self._frames is None:
            raise WebSocketClosed("the connection is closed")
        self._write(self._frames.send_data(message, fin=True))
        while self._full and not self._ended:
            if self._drained is None:
                self._drained = Deferred()
            await self._drained

    def close(self) -> None:
        """Sends a close frame; the connection ends with the other end's close frame, or after ``CLOSE_TIMEOUT_SECONDS``."""
        if self._closing is not None or self._ended or self._frames is None:
            return
        self._write(self._frames.close(CloseReason.NORMAL_CLOSURE))
        self._closing = self._reactor.callLater(CLOSE_TIMEOUT_SECONDS, self.abort)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abortConnection()
