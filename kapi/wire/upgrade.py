"""A connection that changes its protocol with its first request: the handshake, and a queue of received messages.

Upstream: apimachinery ``util/httpstream``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.request.transport import StreamTransport, close_when_sent
from kapi.wire.answer import Answer, BadAnswer, Body, next_head
from kapi.wire.head import request_head
from kapi.wire.transport import Header, Response

MAX_REFUSAL = 64 * 1024  # bytes of an answer that is no upgrade
MAX_BUFFERED = 1024 * 1024  # bytes of messages that wait for their reader before the sender is made to wait


class WebSocketClosed(Exception):
    """The other end has closed the connection without saying so, or with an error; also that of another protocol."""


def header(answer: Answer, name: bytes) -> bytes:
    """The first value of a header, "" without it."""
    return (answer.headers.getRawHeaders(name) or [b""])[0]


@implementer(IPushProducer)
class Upgraded(Protocol):
    """``opened`` fires with this object when the server changes the protocol, or with its Response when it refuses.

    ``protocol`` is the one that the server has chosen of those offered.
    """

    transport: StreamTransport

    def __init__(self, method: str, target: str, headers: Sequence[Header], protocols: Sequence[str]) -> None:
        self._protocols = list(protocols)
        self._request = request_head(method.encode("ascii"), target.encode("ascii"), headers)
        self.opened: Deferred[Upgraded | Response] = Deferred(lambda _: self.abort())
        self.protocol = ""
        self._raw = b""  # the received part of the answer's head, and the bytes after it
        self._agreed = False
        self._answer: Answer | None = None  # set when the server refuses
        self._refusal_body: Body | None = None  # until it is complete
        self._refusal: list[bytes] = []  # the received pieces of its body
        self._refusal_length = 0  # of those, in bytes
        self._messages: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._reader: Deferred[None] | None = None
        self._drained: Deferred[None] | None = None
        self._full = False
        self._end: Exception | None = None
        self._ended = False

    # the protocol

    def agree(self, answer: Answer) -> str:
        """The protocol that the server has chosen.  Raises BadAnswer."""
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Called with bytes of the new protocol.  Raises BadAnswer."""
        raise NotImplementedError

    def lost(self) -> Exception | None:
        """Why a connection has ended that is lost; None when that is a normal end."""
        return WebSocketClosed("the connection was lost")

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
            if self._agreed:
                self.receive(data)
            else:
                self._handshake(data)
        except BadAnswer as problem:
            self._finish(problem)
            self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        answer = self._answer
        if answer is not None and not self.opened.called:
            self.opened.callback(Response(answer.code, answer.headers, b"".join(self._refusal)))
        self.resumeProducing()
        self._finish(self.lost())

    # the handshake

    def _handshake(self, data: bytes) -> None:
        if self._answer is None:
            self._raw += data
            answer, self._raw = next_head(self._raw)
            if answer is None:
                return
            if answer.code == 101:
                self._begin(answer)
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

    def _begin(self, answer: Answer) -> None:
        self.protocol = self.agree(answer)
        if self.protocol not in self._protocols:
            raise BadAnswer(f"the server has chosen the protocol {self.protocol!r}, which was not requested")
        self._agreed = True
        rest, self._raw = self._raw, b""
        self.opened.callback(self)
        if rest:
            self.receive(rest)

    # messages

    def _queue(self, message: bytes) -> None:
        """Adds a message for the reader."""
        self._messages.append(message)
        self._buffered += len(message)
        if self._buffered > MAX_BUFFERED and not self._paused:
            self._paused = True
            self.transport.pauseProducing()
        self._wake()

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

    async def _sent(self, data: bytes | bytearray) -> None:
        """Writes; waits while the connection takes no more data."""
        self._write(data)
        while self._full and not self._ended:
            if self._drained is None:
                self._drained = Deferred()
            await self._drained

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abortConnection()
