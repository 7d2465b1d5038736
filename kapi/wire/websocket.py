"""A WebSocket to an API server: messages out and in (upstream: client-go ``transport/websocket``, RFC 6455)."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed
from wsproto.utilities import generate_accept_token

from kapi.request.transport import close_when_sent
from kapi.wire.answer import Answer, BadAnswer
from kapi.wire.transport import Header
from kapi.wire.upgrade import Upgraded, WebSocketClosed, header

MAX_MESSAGE = 16 * 1024 * 1024  # bytes
CLOSE_TIMEOUT_SECONDS = 5.0  # for the other end to answer a close frame


class WebSocket(Upgraded):
    """``protocol`` is the subprotocol."""

    def __init__(
        self, reactor: IReactorTime, method: str, target: str, headers: Sequence[Header], protocols: Sequence[str]
    ) -> None:
        self._reactor = reactor
        self._key = b64encode(os.urandom(16))
        more: list[Header] = [
            (b"Connection", b"Upgrade"),
            (b"Upgrade", b"websocket"),
            (b"Sec-WebSocket-Version", b"13"),
            (b"Sec-WebSocket-Key", self._key),
            (b"Sec-WebSocket-Protocol", ", ".join(protocols).encode("ascii")),
        ]
        super().__init__(method, target, [*headers, *more], protocols)
        self._frames = FrameProtocol(client=True, extensions=[])
        self._part: list[bytes] = []
        self._size = 0
        self._closing: IDelayedCall | None = None  # ends the connection when the other end does not

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._closing is not None and self._closing.active():
            self._closing.cancel()
        super().connectionLost(reason)

    def agree(self, answer: Answer) -> str:
        token = generate_accept_token(self._key)
        if header(answer, b"upgrade").lower() != b"websocket" or header(answer, b"sec-websocket-accept") != token:
            raise BadAnswer("the answer to the request for a WebSocket is none")
        return header(answer, b"sec-websocket-protocol").decode("ascii", "replace")

    def receive(self, data: bytes) -> None:
        self._frames.receive_bytes(data)
        try:
            for frame in self._frames.received_frames():
                if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION):
                    self._add(frame.payload, frame.message_finished)
                elif frame.opcode is Opcode.PING and frame.frame_finished:
                    payload: Any = frame.payload
                    self._write(self._frames.pong(bytes(payload)))
                elif frame.opcode is Opcode.CLOSE:
                    self._closed(*frame.payload)
                    return
        except ParseFailed as problem:
            raise BadAnswer(str(problem)) from None

    def _add(self, payload: Any, finished: bool) -> None:
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        self._part.append(data)
        self._size += len(data)
        if self._size > MAX_MESSAGE:
            raise BadAnswer(f"a message is larger than {MAX_MESSAGE} bytes")
        if finished:
            self._queue(b"".join(self._part))
            self._part, self._size = [], 0

    def _closed(self, code: int, reason: str | None) -> None:
        """A close frame has come."""
        if self._closing is None:
            self._write(self._frames.close(CloseReason.NORMAL_CLOSURE))
        fine = code in (CloseReason.NORMAL_CLOSURE, CloseReason.GOING_AWAY, CloseReason.NO_STATUS_RCVD)
        self._finish(None if fine else WebSocketClosed(reason or f"closed with code {int(code)}"))
        close_when_sent(self.transport)

    async def send(self, message: bytes) -> None:
        """Sends a message; waits while the connection takes no more data.  Raises WebSocketClosed."""
        if self._ended or not self._agreed:
            raise WebSocketClosed("the connection is closed")
        await self._sent(self._frames.send_data(message, fin=True))

    def close(self) -> None:
        """Sends a close frame; the connection ends with the other end's close frame, or after ``CLOSE_TIMEOUT_SECONDS``."""
        if self._closing is not None or self._ended or not self._agreed:
            return
        self._write(self._frames.close(CloseReason.NORMAL_CLOSURE))
        self._closing = self._reactor.callLater(CLOSE_TIMEOUT_SECONDS, self.abort)
