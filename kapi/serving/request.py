"""The HTTP request object: a bounded body, no form parsing, and then the runner (upstream: ``net/http`` server)."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from email.utils import formatdate
from functools import lru_cache
from time import time
from typing import Any, TypeVar

from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.python.failure import Failure
from twisted.web import http, server
from twisted.web.http_headers import Headers

from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest, Waiting
from kapi.request.pending import MIN_COUNTED_BYTES, PendingBytes
from kapi.request.response import CLOSE, SLICE
from kapi.request.streamed_body import StreamedBody
from kapi.serving.run import RequestRunner

T = TypeVar("T")
_MAX_CACHED_NAME_BYTES = 64  # the canonical form of a longer name is not cached


@lru_cache(1000)
def canonical(name: bytes | str) -> bytes:
    """A name as Go writes it, cached: only for short names."""
    return _written(name.encode("latin-1") if isinstance(name, str) else name)


def _written(name: bytes) -> bytes:
    return b"-".join([word.capitalize() for word in name.split(b"-")])


class RequestHeaders:
    """The part of twisted.web's ``Headers`` that is used here, in a third of the time.  ``fields``: values by canonical name.

    Names are stored as Go writes them (``net/textproto``, CanonicalMIMEHeaderKey); values have no line breaks.
    """

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: dict[bytes, list[bytes]] = {}

    def add(self, fields: Iterable[tuple[bytes, bytes]]) -> None:
        """Adds all fields of a request."""
        found = self.fields
        for name, value in fields:
            key = canonical(name) if len(name) <= _MAX_CACHED_NAME_BYTES else _written(name)
            if key in found:
                found[key].append(value)
            else:
                found[key] = [value]

    def addRawHeader(self, name: bytes, value: bytes) -> None:
        self.add(((name, value),))

    def setRawHeaders(self, name: bytes, values: Sequence[bytes]) -> None:
        self.fields[canonical(name)] = list(values)

    def removeHeader(self, name: bytes) -> None:
        self.fields.pop(canonical(name) if len(name) <= _MAX_CACHED_NAME_BYTES else _written(name), None)

    def hasHeader(self, name: bytes) -> bool:
        return canonical(name) in self.fields

    def getRawHeaders(self, name: bytes, default: T | None = None) -> list[bytes] | T | None:
        return self.fields.get(canonical(name)) or default

    def getAllRawHeaders(self) -> Iterator[tuple[bytes, list[bytes]]]:
        return iter(self.fields.items())


MAX_BODY = 3 * 1024 * 1024  # bytes
#: so much of a too large body is still read, so that its sender sees the answer instead of a reset
_MAX_DRAINED_BYTES = 64 * 1024 * 1024
#: seconds after which a request is forwarded before its body is complete
_STREAM_DELAY_SECONDS = 0.05
#: request headers that the logs need at the end of a long answer
_KEPT_HEADERS = (b"User-Agent", b"X-Forwarded-For", b"X-Real-Ip")
_NO_ARGUMENTS: dict[bytes, list[bytes]] = {}
#: looked up once: twisted.web.http is a proxy module, because of its deprecated names
_BODYLESS_CODES = frozenset(http.NO_BODY_CODES)
_finish, _write = http.Request.finish, http.Request.write


class APIRequest(server.Request):
    """``runner`` is set by the site on a subclass."""

    runner: RequestRunner
    context: RequestContext | None = None  # while the resource is rendered
    defaultContentType = None
    body_size = 0  # bytes received; more than MAX_BODY are counted but not kept
    min_counted = MIN_COUNTED_BYTES  # of a body
    body_refused = False  # too many bytes are waiting for slow clients
    _pending_bytes: PendingBytes | None = None  # of a large head and a large body
    _counted_head = 0  # bytes of a large head
    waiting: Waiting | None = None  # an answer that is not ready yet: notified when the client disconnects
    streamed: StreamedBody | None = None  # set when the request was forwarded before its whole body had come
    # (method, uri, version, length) of a request that may be forwarded before its body is complete
    _request_line: tuple[bytes, bytes, bytes, int | None] | None = None
    _stream_call: IDelayedCall | None = None  # the timer that forwards it
    _head = b""  # the head of an answer whose first part is not written yet
    _follows = False  # further parts follow, as they are

    @property
    def body_too_large(self) -> bool:
        return self.body_size > MAX_BODY

    def __init__(self, channel: Any, queued: bool = False) -> None:
        # unlike the base class, does not read both addresses from the socket for every request
        self.notifications = []
        self.channel = channel
        self.requestHeaders = RequestHeaders()  # type: ignore[assignment]
        self.responseHeaders = Headers()
        self.received_cookies = {}
        self.cookies = []
        self.queued = False
        self._parsePOSTFormSubmission = False
        self.transport = channel.transport

    @functools.cached_property
    def _adapterCache(self) -> dict[str, object]:  # type: ignore[override]
        """Made when it is needed, by Klein."""
        return {}

    def getRequestHostname(self) -> bytes:
        """Asked by Klein.  No route depends on the host, which is whatever the client sends."""
        return b"kapi"

    @property
    def client(self) -> IAddress:
        """The client's address, also after the answer, when the channel is gone."""
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
        """Does nothing: cookies are not used."""

    def gotLength(self, length: int | None) -> None:
        self.content = io.BytesIO()

    def count_head(self, size: int, waits: bool) -> None:
        """Counts a large head; ``waits`` if a body follows."""
        pending = self.runner.pending
        self._counted_head = size
        self._pending_bytes = PendingBytes(pending, size)
        if waits:
            pending.progress(self)

    def handleContentChunk(self, data: bytes) -> None:
        self.body_size += len(data)
        if self.streamed is not None:
            self.streamed.received(data)
            return
        if self._stream_call is not None and self.body_size > MIN_COUNTED_BYTES:
            self._stream_call.reset(0)  # not now: the channel is still reading
        if self.body_size > self.min_counted and not self._count(len(data)):
            return
        if self.body_size <= MAX_BODY:
            self.content.write(data)  # type: ignore[union-attr]
        elif self.body_size > _MAX_DRAINED_BYTES:
            self.abort()

    def _count(self, size: int) -> bool:
        """Counts a large body.  Returns False when there is no memory for it: it is dropped, and answered with 429."""
        pending = self.runner.pending
        if self._pending_bytes is None:
            self._pending_bytes = PendingBytes(pending, self.body_size - size)
        if not self.body_refused and pending.full:
            pending.shrink(self)
            if pending.full:
                self.body_refused = True
                pending.refused += 1
                self.content = io.BytesIO()
        if self.body_refused:
            self._pending_bytes.set(self._counted_head)
            if self.body_size > _MAX_DRAINED_BYTES:
                self.abort()
            return False
        if self.body_size <= MAX_BODY:
            self._pending_bytes.set(self._counted_head + self.body_size)
        pending.progress(self)
        return True

    def cut_off(self) -> None:
        """Drops a body that made no progress for long, and closes the connection."""
        self._pending_bytes = None
        self.content = io.BytesIO()
        self.abort()

    # -- a body that is forwarded while it is received

    def stream_soon(self, method: bytes, uri: bytes, version: bytes, length: int | None) -> None:
        """For a body that goes to another server: the request begins before the body is complete when that is slow or large.

        ``length`` is in bytes, None when unknown.
        """
        self._request_line = method, uri, version, length
        self._stream_call = self.runner.reactor.callLater(_STREAM_DELAY_SECONDS, self._stream)

    def _stream(self) -> None:
        assert self._request_line is not None
        self._stream_call = None
        method, uri, version, length = self._request_line
        start = self.content.getvalue()  # type: ignore[union-attr]
        if self.body_refused or self.body_size > len(start):
            return  # refused or too large: answered when the whole body has come
        self._pending_bytes = None
        self.content = io.BytesIO()
        channel: Any = self.channel
        channel.stream_body(self, len(start))
        self.streamed = StreamedBody(self, length, start)
        self._begin(method, uri, version)

    def body_waits(self, size: int) -> None:
        """Counts the waiting bytes of a forwarded body, and pauses the client while there are any."""
        pending = self.runner.pending
        if size:
            if self._pending_bytes is None:
                self._pending_bytes = PendingBytes(pending)
            self._pending_bytes.set(size)
            pending.wait(self)
        elif self._pending_bytes is not None:
            self._pending_bytes = None
            pending.leave(self)
        channel: Any = getattr(self, "channel", None)
        if channel is not None:
            channel.hold_body(bool(size))

    def body_taken(self, size: int) -> None:
        """Called when ``size`` bytes were consumed: the client may send more."""
        channel: Any = getattr(self, "channel", None)
        if channel is not None:
            channel.body_taken(size)

    def end_streaming(self) -> None:
        """The answer is complete: the rest of the body is not needed."""
        if self.streamed is not None:
            self.streamed.fail(Failure(ConnectionAborted("the answer is over")))
            self.streamed.stop()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Unlike the base class: no query arguments, no cookies and no forms are parsed."""
        if self.streamed is not None:
            self.streamed.end()
            return
        if self._stream_call is not None:
            self._stream_call.cancel()
            self._stream_call = None
        if self._pending_bytes is not None:
            self.runner.pending.leave(self)
        self._begin(command, path, version)

    def _begin(self, command: bytes, path: bytes, version: bytes) -> None:
        self.method, self.uri, self.clientproto = command, path, version
        self.path = path.partition(b"?")[0]
        self.args = _NO_ARGUMENTS  # the query is parsed once, by the runner
        self.process()

    def process(self) -> None:
        """Runs the filters; the resource is looked for after them."""
        self.runner.serve(self)

    def finish(self) -> None:
        _finish(self)  # without the encoders of server.Request

    def shrink(self) -> None:
        """Frees what is no longer needed once a long answer has begun."""
        kept = RequestHeaders()
        for name in _KEPT_HEADERS:
            values = self.requestHeaders.getRawHeaders(name)
            if values:
                kept.setRawHeaders(name, values)
        self.requestHeaders, self.responseHeaders = kept, Headers()  # type: ignore[assignment]
        self.content = self._pending_bytes = None

    @property
    def gone(self) -> bool:
        """Whether the client has left or reset the stream."""
        return bool(self._disconnected)

    def connectionLost(self, reason: Failure) -> None:
        """The client has left.  Stops the answer's producer here, since HTTP/2 does not."""
        channel, producer = getattr(self, "channel", None), self.producer
        self.producer = None
        waiting, self.waiting = self.waiting, None
        if self._stream_call is not None:
            self._stream_call.cancel()
            self._stream_call = None
        if self.streamed is not None:
            self.streamed.fail(reason)
            self.streamed.stop()
        if self._pending_bytes is not None:
            self.runner.pending.leave(self)
        super().connectionLost(reason)
        if waiting is not None:
            waiting.client_gone()
        if producer is not None:
            if channel is not None:
                channel.unregisterProducer()  # stop pulling data
            producer.stopProducing()

    def abort(self) -> None:
        """Ends an answer in the middle, so that the client does not take it for complete."""
        channel: Any = getattr(self, "channel", None)
        if channel is not None:
            (getattr(channel, "abortConnection", None) or channel.transport.abortConnection)()

    def chunk_writer(self) -> Callable[[bytes], None] | None:
        """A function that sends data already framed as chunks; None when this answer is not chunked."""
        channel = self.channel
        if not self.chunked or not getattr(channel, "single_write", False):
            return None
        writer: Callable[[bytes], None] = channel.transport.write  # type: ignore[union-attr]
        return writer

    def write(self, data: bytes) -> None:
        """Like the base class, but sends headers and first data in one write, unless the data is long."""
        channel = self.channel
        if self._follows and not (self.finished or self._disconnected):
            self.sentLength += len(data)
            channel.transport.write(data)  # type: ignore[union-attr]
            return
        if self.startedWriting or self.finished or self._disconnected:
            _write(self, data)
            return
        self.startedWriting = True
        if not getattr(channel, "single_write", False):
            self._write_first(data)
            return
        head = self._head
        if head:
            self._head, self._follows = b"", True
            self.sentLength = len(data)
            if len(data) > SLICE:  # to copy it takes longer than another record
                channel.transport.write(head)  # type: ignore[union-attr]
                channel.transport.write(data)  # type: ignore[union-attr]
            else:
                channel.transport.write(head + data)  # type: ignore[union-attr]
            return
        headers = self.responseHeaders
        if headers.hasHeader(b"connection"):
            channel.persistent = False
        bodyless = self.method == b"HEAD" or self.code in _BODYLESS_CODES
        if not bodyless and not headers.hasHeader(b"content-length"):
            if self.clientproto == b"HTTP/1.1":
                headers.setRawHeaders(b"transfer-encoding", [b"chunked"])
                self.chunked = 1
            else:
                channel.persistent = False  # its end is that of the body
        out = [self._first_lines(not headers.hasHeader(b"date"))]
        for name, values in headers.getAllRawHeaders():
            for value in values:
                out += (name, b": ", value, b"\r\n")
        out.append(b"\r\n")
        write = channel.transport.write  # type: ignore[union-attr]
        if bodyless:
            self.write = _discard  # type: ignore[method-assign]
        elif data:
            self.sentLength += len(data)
            if len(data) > SLICE and not self.chunked:
                write(b"".join(out))
                write(data)
                return
            if self.chunked:
                out += (b"%x\r\n" % len(data), data, b"\r\n")
            else:
                out.append(data)
        write(b"".join(out))

    def _first_lines(self, dated: bool = True) -> bytes:
        lines = _status_and_date(self.clientproto, self.code, self.code_message, int(time()) if dated else 0)
        if self.clientproto == b"HTTP/1.0" and self.channel.persistent:
            return lines + b"Connection: keep-alive\r\n"
        return lines

    def _write_first(self, data: bytes) -> None:
        """Headers and first data, to a channel that frames answers itself."""
        channel: Any = self.channel
        channel.writeHeaders(self.clientproto, b"%d" % self.code, self.code_message, self.responseHeaders)
        if self.method == b"HEAD" or self.code in _BODYLESS_CODES:
            self.write = _discard  # type: ignore[method-assign]
        elif data:
            self.sentLength = len(data)
            channel.write(data)

    def begin(self, fields: Sequence[tuple[bytes, bytes]], size: int) -> None:
        """Sends these headers with the first part of a body of ``size`` bytes."""
        self._head = self._made_head(fields, size)
        if not self._head:
            set_headers(self, fields, size)

    def write_whole(self, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Sends a complete answer with these headers in one write."""
        head = self._made_head(fields, len(body))
        if not head:
            write_plainly(self, fields, body)
            return
        self.startedWriting = True
        self.sentLength = len(body)
        self.channel.transport.write(head + body)  # type: ignore[union-attr]
        self.finish()

    def _made_head(self, fields: Sequence[tuple[bytes, bytes]], size: int) -> bytes:
        """The status line and all headers as they are sent; empty when the answer cannot be sent in one write."""
        simple = not self.startedWriting and getattr(self.channel, "single_write", False) and not self._disconnected
        if not simple or self.method == b"HEAD" or self.code in _BODYLESS_CODES:
            return b""
        if CLOSE in fields:
            self.channel.persistent = False
        first = self._first_lines()
        out = [first]
        for name, values in self.responseHeaders.getAllRawHeaders():
            for value in values:
                out += (name, b": ", value, b"\r\n")
        for name, value in fields:
            out += (canonical(name), b": ", value, b"\r\n")
        out.append(b"Content-Length: %d\r\n\r\n" % size)
        head = b"".join(out)
        lines = first.count(b"\n") + len(out) // 4 + 2  # with the length and an empty one
        if head.count(b"\n") != lines or head.count(b"\r") != lines:
            return b""  # a value has a line break
        return head


def set_headers(request: HTTPRequest, fields: Sequence[tuple[bytes, bytes]], size: int) -> None:
    """Sets headers as any request does: line breaks in their values are removed."""
    headers = request.responseHeaders
    for name, value in fields:
        headers.addRawHeader(name, value)
    headers.setRawHeaders(b"content-length", [b"%d" % size])


def write_plainly(request: HTTPRequest, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
    """Sends a complete answer by the methods of any request; line breaks in header values are removed."""
    set_headers(request, fields, len(body))
    request.write(body)
    request.finish()


def _discard(data: bytes) -> None:
    """Drops the body of an answer that must not have one."""


@functools.lru_cache(maxsize=256)
def _status_and_date(version: bytes, code: int, message: bytes, second: int) -> bytes:
    """The first lines of an answer; without a date when ``second`` is 0."""
    date = b"Date: %s\r\n" % http_date(second) if second else b""
    return b"%s %d %s\r\n%s" % (version, code, message, date)


@functools.lru_cache(maxsize=1)
def http_date(second: int) -> bytes:
    """A time in seconds since 1970 as headers have it, made once for all answers of a second."""
    return formatdate(second, usegmt=True).encode()
