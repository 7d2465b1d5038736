"""The HTTP request object: a bounded body, no form parsing, and then the runner (upstream: ``net/http`` server)."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.python.failure import Failure
from twisted.web import http
from twisted.web.http_headers import Headers

from kapi.request.http import HTTPRequest, Waiting
from kapi.request.pending import COUNTED, Share
from kapi.request.streamed_body import StreamedBody
from kapi.server.request_headers import RequestHeaders, canonical
from kapi.server.runner import RequestRunner

MAX_BODY = 3 * 1024 * 1024  # bytes
#: what is still read of a body beyond the limit, so that its sender sees the answer instead of a reset
_MAX_DRAINED_BYTES = 64 * 1024 * 1024
#: seconds until a request is passed on though its body has not come
_STREAM_DELAY_SECONDS = 0.05
#: request headers that are still asked for when a long answer ends: by the logs
_LASTING = (b"User-Agent", b"X-Forwarded-For", b"X-Real-Ip")
_NO_ARGUMENTS: dict[bytes, list[bytes]] = {}
#: looked up once: twisted.web.http has deprecated names, and stands behind a proxy for their sake
_BODYLESS_CODES = frozenset(http.NO_BODY_CODES)


class APIRequest(http.Request):
    """``runner`` is set by the factory on a subclass."""

    runner: RequestRunner
    body_size = 0  # bytes received; more than MAX_BODY are counted but not kept
    body_refused = False  # too much waits already
    _share: Share | None = None  # of a large body
    waiting: Waiting | None = None  # an answer that has not come yet: notified when the client leaves
    streamed: StreamedBody | None = None  # the request was passed on before its body had come
    _early: tuple[bytes, bytes, bytes, int | None] | None = None  # what it needs to be passed on
    _soon: IDelayedCall | None = None  # the timer that passes it on

    @property
    def body_too_large(self) -> bool:
        return self.body_size > MAX_BODY

    def __init__(self, channel: Any, queued: bool = False) -> None:
        # the base class asks the socket for both addresses on every request; here they are looked up when asked for
        self.notifications = []
        self.channel = channel
        self.requestHeaders = RequestHeaders()  # type: ignore[assignment]
        self.responseHeaders = Headers()
        self.received_cookies = {}
        self.cookies = []
        self.queued = False
        self._parsePOSTFormSubmission = False
        self.transport = channel.transport

    @property
    def client(self) -> IAddress:
        """Known also when the answer is out and the channel is taken away."""
        peer: IAddress = self._connection().getPeer()
        return peer

    @property
    def host(self) -> IAddress:
        host: IAddress = self._connection().getHost()
        return host

    def _connection(self) -> Any:
        return getattr(self, "channel", None) or self.transport

    def getHeader(self, key: object) -> Any:
        """The first value, as bytes."""
        values = self.requestHeaders.fields.get(canonical(key))  # type: ignore[attr-defined]
        return values[0] if values else None

    def parseCookies(self) -> None:
        """Nobody reads cookies here."""

    def gotLength(self, length: int | None) -> None:
        self.content = io.BytesIO()

    def handleContentChunk(self, data: bytes) -> None:
        self.body_size += len(data)
        if self.streamed is not None:
            self.streamed.received(data)
            return
        if self._soon is not None and self.body_size > COUNTED:
            self._soon.reset(0)  # not now: the channel is in the middle of what it reads
        if self.body_size > COUNTED and not self._count(len(data)):
            return
        if self.body_size <= MAX_BODY:
            self.content.write(data)  # type: ignore[union-attr]
        elif self.body_size > _MAX_DRAINED_BYTES:
            self.abort()

    def _count(self, size: int) -> bool:
        """Whether there is memory for more of a large body; else none of it is kept, and it is answered with 429."""
        pending = self.runner.pending
        if self._share is None:
            self._share = Share(pending, self.body_size - size)
        if not self.body_refused and pending.full:
            pending.shrink()
            if pending.full:
                self.body_refused = True
                pending.refused += 1
                self.content = io.BytesIO()
        if self.body_refused:
            self._share.set(0)
            if self.body_size > _MAX_DRAINED_BYTES:
                self.abort()
            return False
        if self.body_size <= MAX_BODY:
            self._share.set(self.body_size)
        pending.progress(self)
        return True

    def cut_off(self) -> None:
        """Nothing more has come of the body for long, or was taken of it, and others need the memory."""
        self._share = None
        self.content = io.BytesIO()
        self.abort()

    # -- a body that is passed on while it comes

    def stream_soon(self, method: bytes, uri: bytes, version: bytes, length: int | None) -> None:
        """The body goes to another server: the request begins when it is long in coming, or large.

        ``length`` in bytes, None when the client does not say.
        """
        self._early = method, uri, version, length
        self._soon = self.runner.reactor.callLater(_STREAM_DELAY_SECONDS, self._stream)

    def _stream(self) -> None:
        assert self._early is not None
        self._soon = None
        method, uri, version, length = self._early
        start = self.content.getvalue()  # type: ignore[union-attr]
        if self.body_refused or self.body_size > len(start):
            return  # it is answered for what it is when all has come
        self._share = None
        self.content = io.BytesIO()
        channel: Any = self.channel
        channel.stream_body(self, len(start))
        self.streamed = StreamedBody(self, length, start)
        self._begin(method, uri, version)

    def body_waits(self, size: int) -> None:
        """What waits of a body that is passed on counts as what waits for other clients does."""
        pending = self.runner.pending
        if size:
            if self._share is None:
                self._share = Share(pending)
            self._share.set(size)
            pending.wait(self)
        elif self._share is not None:
            self._share = None
            pending.leave(self)
        channel: Any = getattr(self, "channel", None)
        if channel is not None:
            channel.hold_body(size > 0)

    def body_taken(self, size: int) -> None:
        """The body may go on: what came was taken."""
        channel: Any = getattr(self, "channel", None)
        if channel is not None:
            channel.body_taken(size)

    def end_streaming(self) -> None:
        """The answer is out: the rest of the body is of no use."""
        if self.streamed is not None:
            self.streamed.fail(Failure(ConnectionAborted("the answer is over")))
            self.streamed.stop()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Unlike the base class: no query arguments, no cookies and no forms are parsed."""
        if self.streamed is not None:
            self.streamed.end()
            return
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._share is not None:
            self.runner.pending.leave(self)
        self._begin(command, path, version)

    def _begin(self, command: bytes, path: bytes, version: bytes) -> None:
        self.method, self.uri, self.clientproto = command, path, version
        self.path = path.partition(b"?")[0]
        self.args = _NO_ARGUMENTS  # the query is parsed once, by the runner
        self.process()

    def process(self) -> None:
        self.runner.serve(self)

    def shrink(self) -> None:
        """The answer has begun and will take long: lets go of what only its beginning needed."""
        kept = RequestHeaders()
        for name in _LASTING:
            values = self.requestHeaders.getRawHeaders(name)
            if values:
                kept.setRawHeaders(name, values)
        self.requestHeaders, self.responseHeaders = kept, Headers()  # type: ignore[assignment]
        self.content = self._share = None

    @property
    def gone(self) -> bool:
        """Whether the client has left, or has taken the request back."""
        return bool(self._disconnected)

    def connectionLost(self, reason: Failure) -> None:
        """The client has left: what writes the answer is stopped here, since HTTP/2 does not do so."""
        channel, producer = getattr(self, "channel", None), self.producer
        self.producer = None
        waiting, self.waiting = self.waiting, None
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self.streamed is not None:
            self.streamed.fail(reason)
            self.streamed.stop()
        if self._share is not None:
            self.runner.pending.leave(self)
        super().connectionLost(reason)
        if waiting is not None:
            waiting.left()
        if producer is not None:
            if channel is not None:
                channel.unregisterProducer()  # nothing is pulled any more
            producer.stopProducing()

    def abort(self) -> None:
        """Ends an answer in the middle so that nobody takes it for a whole one."""
        channel: Any = self.channel
        if channel is not None:
            channel.transport.abortConnection()

    def chunk_writer(self) -> Callable[[bytes], None] | None:
        """Takes what is framed as chunks already (see ``chunk``); None when this answer is not sent in chunks."""
        channel = self.channel
        if not self.chunked or not getattr(channel, "single_write", False):
            return None
        writer: Callable[[bytes], None] = channel.transport.write  # type: ignore[union-attr]
        return writer

    def write(self, data: bytes) -> None:
        """As the base class does, but headers and first data leave in one piece."""
        channel = self.channel
        if self.startedWriting or self.finished or self._disconnected or not getattr(channel, "single_write", False):
            super().write(data)
            return
        self.startedWriting = 1
        headers = self.responseHeaders
        bodyless = self.method == b"HEAD" or self.code in _BODYLESS_CODES
        if not bodyless and self.clientproto == b"HTTP/1.1" and not headers.hasHeader(b"content-length"):
            headers.setRawHeaders(b"transfer-encoding", [b"chunked"])
            self.chunked = 1
        out = [_status_line(self.clientproto, self.code, self.code_message)]
        for name, values in headers.getAllRawHeaders():
            for value in values:
                out += (name, b": ", value, b"\r\n")
        out.append(b"\r\n")
        if bodyless:
            self.write = _discard  # type: ignore[method-assign]
        elif data:
            self.sentLength += len(data)
            if self.chunked:
                out += (b"%x\r\n" % len(data), data, b"\r\n")
            else:
                out.append(data)
        channel.transport.write(b"".join(out))  # type: ignore[union-attr]

    def write_whole(self, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """The answer with these headers, its body and its end."""
        channel = self.channel
        simple = not self.startedWriting and getattr(channel, "single_write", False) and not self._disconnected
        if not simple or self.method == b"HEAD" or self.code in _BODYLESS_CODES:
            write_plainly(self, fields, body)
            return
        out = [_status_line(self.clientproto, self.code, self.code_message)]
        for name, values in self.responseHeaders.getAllRawHeaders():
            for value in values:
                out += (name, b": ", value, b"\r\n")
        for name, value in fields:
            out += (canonical(name), b": ", value, b"\r\n")
        out.append(b"Content-Length: %d\r\n\r\n" % len(body))
        head = b"".join(out)
        lines = len(out) // 4 + 3  # the status, the length and an empty one
        if head.count(b"\n") != lines or head.count(b"\r") != lines:
            write_plainly(self, fields, body)  # a value would be more than one line
            return
        self.startedWriting = 1
        self.sentLength = len(body)
        channel.transport.write(head + body)  # type: ignore[union-attr]
        self.finish()


def write_plainly(request: HTTPRequest, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
    """A whole answer by what every request has; the values of headers are made single lines."""
    headers = request.responseHeaders
    for name, value in fields:
        headers.addRawHeader(name, value)
    headers.setRawHeaders(b"content-length", [b"%d" % len(body)])
    request.write(body)
    request.finish()


def _discard(data: bytes) -> None:
    """The body of an answer that may not have one."""


@functools.lru_cache(maxsize=256)
def _status_line(version: bytes, code: int, message: bytes) -> bytes:
    return b"%s %d %s\r\n" % (version, code, message)
