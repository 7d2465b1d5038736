"""A stream of HTTP/2, and its request: the counterparts of ``http1`` and ``request`` (RFC 9113, section 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import time
from typing import Protocol

from twisted.internet.interfaces import IAddress, IPushProducer
from twisted.web import http

from kapi.request.transport import StreamTransport
from kapi.serving.http2_heads import Head, answer_block
from kapi.serving.request import APIRequest, http_date

_BODYLESS_CODES = frozenset(http.NO_BODY_CODES)
NOTHING: deque[memoryview] = deque(maxlen=0)  # shared by streams without waiting data: a deque takes 600 bytes


class StreamSending(Protocol):
    """The sending side of a connection (Sending), as a stream sees it."""

    def registered(self, stream: Stream) -> None: ...

    def head(self, stream: Stream, block: bytes) -> None: ...

    def data(self, stream: Stream, data: bytes) -> None: ...

    def end(self, stream: Stream) -> None: ...

    def whole(self, stream: Stream, block: bytes, body: bytes) -> None: ...


class StreamConnection(Protocol):
    """The connection (Http2), as a stream sees it."""

    transport: StreamTransport
    leave_soon: bool

    @property
    def sending(self) -> StreamSending: ...

    def getPeer(self) -> IAddress: ...

    def hold_window(self, stream: Stream, size: int) -> None: ...

    def taken(self, stream: Stream, size: int) -> None: ...

    def reset(self, number: int) -> None: ...

    def go_away(self) -> None: ...


class Stream:
    """The channel of a request, and the state of both directions.

    Data waits here only while the client's windows or the socket are full; meanwhile the producer is paused.
    """

    __slots__ = (
        "connection", "transport", "number", "request", "head",
        "complete", "receive_window", "missing", "held", "free",
        "window", "waiting", "block", "ends", "ended", "ready", "producer", "streaming", "paused",
    )  # fmt: skip

    def __init__(self, connection: StreamConnection, number: int, window: int, receive_window: int) -> None:
        self.connection = connection
        self.transport = connection.transport
        self.number = number
        self.request: StreamRequest | None = None  # None again when it is answered
        self.head: Head | None = None  # until the request begins
        # receiving
        self.complete = False
        self.receive_window = receive_window  # bytes
        self.missing: int | None = None  # bytes of the body, if the client has said how many there are
        self.held = False  # the window is opened only for consumed bytes of the body
        self.free = 0  # consumed bytes without a WINDOW_UPDATE so far
        # sending
        self.window = window  # bytes
        self.waiting = NOTHING
        self.block = b""  # a header block that waits
        self.ends = False  # END_STREAM follows the waiting data
        self.ended = False  # END_STREAM was sent
        self.ready = False  # the stream is in the queue of the sending side
        self.producer: IPushProducer | None = None
        self.streaming = False
        self.paused = False

    # -- the channel of a request

    def getPeer(self) -> IAddress:
        peer: IAddress = self.connection.getPeer()
        return peer

    def getHost(self) -> IAddress:
        host: IAddress = self.transport.getHost()
        return host

    def isSecure(self) -> bool:
        return True

    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None:
        self.producer, self.streaming = producer, streaming
        self.connection.sending.registered(self)

    def unregisterProducer(self) -> None:
        self.producer = None
        self.paused = False

    def loseConnection(self) -> None:
        if self.request is not None:
            self.requestDone(self.request)

    def abortConnection(self) -> None:
        self.connection.reset(self.number)

    def cut_off(self) -> None:
        """Ends the stream, because the memory is needed for others."""
        self.connection.reset(self.number)

    # -- a body that is forwarded while it is received

    def stream_body(self, request: StreamRequest, size: int) -> None:
        """Called when a request begins before its body has come; ``size`` bytes of it wait."""
        self.head = None
        self.connection.hold_window(self, size)

    def hold_body(self, held: bool) -> None:
        """Nothing to do: ``body_taken`` opens the window."""

    def body_taken(self, size: int) -> None:
        self.connection.taken(self, size)

    def requestDone(self, request: StreamRequest) -> None:
        """The answer is complete; parts of it may still wait."""
        if self.held:
            request.end_streaming()
        self.request = None
        connection = self.connection
        if not self.ended:
            connection.sending.end(self)
        if connection.leave_soon:
            connection.go_away()


class StreamRequest(APIRequest):
    """A request whose channel is a stream."""

    min_counted = 4 * 1024  # a connection has many streams whose bodies may stop

    def write(self, data: bytes) -> None:
        """Headers before the first data."""
        stream: Stream | None = getattr(self, "channel", None)
        if stream is None:
            if self.finished:
                raise RuntimeError("an answer goes on after its end")
            return
        if self.startedWriting:
            if data:
                self.sentLength += len(data)
                stream.connection.sending.data(stream, data)
            return
        self.startedWriting = True
        headers = self.responseHeaders
        fields = [(name, value) for name, values in headers.getAllRawHeaders() for value in values]
        if not headers.hasHeader(b"date"):
            fields.append((b"date", http_date(int(time()))))
        block = self._block(stream, fields)
        stream.connection.sending.head(stream, block)
        if self.method == b"HEAD" or self.code in _BODYLESS_CODES:
            self.write = _discard  # type: ignore[method-assign]
        elif data:
            self.sentLength = len(data)
            stream.connection.sending.data(stream, data)

    def write_whole(self, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        stream: Stream | None = getattr(self, "channel", None)
        if stream is None or self.startedWriting:
            return
        self.startedWriting = True
        every = []
        for name, values in self.responseHeaders.getAllRawHeaders():
            every += [(name, value) for value in values]
        every += fields
        every += ((b"content-length", b"%d" % len(body)), (b"date", http_date(int(time()))))
        block = self._block(stream, every)
        if self.method == b"HEAD" or self.code in _BODYLESS_CODES:
            body = b""
        self.sentLength = len(body)
        stream.connection.sending.whole(stream, block, body)
        self.finish()

    def _block(self, stream: Stream, fields: list[tuple[bytes, bytes]]) -> bytes:
        block, leaves = answer_block(self.code, fields)
        if leaves:
            # HTTP/2 has no such header: GOAWAY follows the answer instead
            stream.connection.leave_soon = True
        return block


def _discard(data: bytes) -> None:
    """Drops the body of an answer that must not have one."""
