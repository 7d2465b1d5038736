"""Writes responses to clients (upstream: ``endpoints/handlers/responsewriters``).

A small response is written at once.  A list of slices is written by a pull producer, so that a list of 26 MB is not in memory
twice.  Large responses are compressed with gzip in threads when the client accepts it: a few at a time, since more threads would
take too much time from the reactor's thread.  Documents that many clients request are compressed once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence

from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.interfaces import IPullProducer
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.machinery.warnings import fitting
from kapi.process.reactor import RequestReactor
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.packed import Packed
from kapi.request.pending import HeldBytes, Pending
from kapi.request.response import (
    SLICE,
    Document,
    DocumentResponse,
    HijackedResponse,
    Parts,
    Response,
    StreamResponse,
    leaves_whole,
)

_LEVEL = 1  # as upstream
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MAX_AT_ONCE = max(1, _CORES - 1)  # bodies; one core is for the reactor
_threads = DeferredSemaphore(MAX_AT_ONCE)
log = Logger()
MIN_GZIP_BYTES = 128 * 1024
LARGE = 512 * 1024  # a list of so many bytes is counted while it is made


def compress(slices: Iterable[bytes]) -> bytes:
    """The slices as one gzip body.  Blocks: call it in a thread."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
    out = [packer.compress(part) for part in slices]
    out.append(packer.flush())
    return b"".join(out)


async def compressed(reactor: RequestReactor, slices: Iterable[bytes]) -> bytes:
    """Compresses the body in a thread, as soon as one is free.  Cancelling the call takes it out of the queue."""
    await _threads.acquire()
    try:
        done: Deferred[bytes] = deferToThreadPool(reactor, reactor.getThreadPool(), compress, slices)
    except BaseException:  # no further thread can be started
        _threads.release()
        raise
    waiting: Deferred[bytes] = Deferred()

    def end(result: bytes | Failure) -> None:
        _threads.release()  # not earlier: the thread goes on when its request is cancelled
        waiting.callback(result)

    done.addBoth(end)
    return await waiting


async def compressed_document(reactor: RequestReactor, document: Document) -> bytes:
    """The compressed body of a document: made at the first request, and kept with the document."""
    found = document.compressed
    if isinstance(found, bytes):
        return found
    if isinstance(found, _Making):
        return await found.wait()
    making = document.compressed = _Making(document)
    waiting = making.wait()
    making.start(reactor)
    return await waiting


class _Making:
    """The compression of a document in progress; it goes on when some of the waiting clients disconnect."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._waiting: list[Deferred[bytes]] = []

    def start(self, reactor: RequestReactor) -> None:
        body = self._document.body
        slices = (body[start : start + SLICE] for start in range(0, len(body), SLICE))
        Deferred.fromCoroutine(compressed(reactor, slices)).addBoth(self._made)

    def _made(self, result: bytes | Failure) -> None:
        self._document.compressed = None if isinstance(result, Failure) else result
        for one in self._waiting:
            one.callback(result)

    def wait(self) -> Deferred[bytes]:
        done: Deferred[bytes] = Deferred()
        self._waiting.append(done)
        return done


def warning_header(text: str) -> bytes:
    """``299 - "text"`` as RFC 9110 quotes it."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()


def write(ctx: RequestContext, response: Response, compresses: bool = True) -> None | Awaitable[None]:
    """Writes the response; returns None when that is done, else an awaitable for its end.

    Without ``compresses`` only documents that are kept compressed are sent compressed: upstream's gate does not concern OpenAPI.
    """
    http = ctx.http
    if isinstance(response, HijackedResponse):
        return None
    http.setResponseCode(response.status)
    fields = [*ctx.response_headers, *response.headers]
    if response.content_type:
        fields.append((b"Content-Type", response.content_type))
    if ctx.warnings:
        fields += [(b"Warning", warning_header(text)) for text in fitting(ctx.warnings)]
    body = response.body
    if leaves_whole(response):
        http.write_whole(fields, body)  # type: ignore[arg-type]  # it is bytes
        return None
    if isinstance(response, StreamResponse):
        _add(http, fields)
        return response.run(http)
    slices: Sequence[bytes] = WholeBody(body) if isinstance(body, bytes) else body
    size = slices.size if isinstance(slices, Parts) else sum(map(len, slices))
    if size >= MIN_GZIP_BYTES and (compresses or isinstance(slices, Packed)) and wants_gzip(ctx):
        _add(http, fields)
        return _write_compressed(ctx, response, slices)
    http.begin(fields, size)
    return _produce(ctx, slices)


def _add(http: HTTPRequest, fields: Sequence[tuple[bytes, bytes]]) -> None:
    for name, value in fields:
        http.responseHeaders.addRawHeader(name, value)


def wants_gzip(ctx: RequestContext) -> bool:
    """Whether the client accepts gzip; as upstream, only the word without parameters counts (``gzip;q=0`` refuses it)."""
    accepted = ctx.header("accept-encoding") or ""
    return any(part.strip() == "gzip" for part in accepted.split(","))


async def _write_compressed(ctx: RequestContext, response: Response, slices: Sequence[bytes]) -> None:
    http = ctx.http
    try:
        if isinstance(slices, Packed):
            packed = slices.gzip
        elif isinstance(response, DocumentResponse):
            packed = await compressed_document(ctx.reactor, response.document)
        else:
            packed = await compressed(ctx.reactor, slices)
    except CancelledError:
        raise
    except Exception:
        log.failure("an answer is sent without compression")
        size = sum(map(len, slices))
    else:
        slices = WholeBody(packed)
        size = len(packed)
        http.responseHeaders.setRawHeaders(b"content-encoding", [b"gzip"])
    if b"Accept-Encoding" not in http.responseHeaders.getRawHeaders(b"vary", ()):
        http.responseHeaders.addRawHeader(b"vary", b"Accept-Encoding")
    http.responseHeaders.setRawHeaders(b"content-length", [b"%d" % size])
    if not http.gone:
        await _produce(ctx, slices)


class WholeBody(Parts):
    """A body that exists as a whole, cut into slices on demand: many slow clients may share one document."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.size = len(body)

    def __len__(self) -> int:
        return max(1, -(-self.size // SLICE))

    def part(self, position: int) -> bytes:
        return self._body[position * SLICE : (position + 1) * SLICE]

    def held(self) -> Iterable[bytes]:
        return (self._body,)


def _produce(ctx: RequestContext, slices: Sequence[bytes]) -> Deferred[None]:
    http, pending, audit = ctx.http, ctx.pending, ctx.audit
    producer = SliceProducer(http, slices, None if audit is None else lambda: audit.complete([audit]))
    http.registerProducer(producer, False)
    if pending is not None and not producer.done.called:
        producer.count(pending)
    return producer.done


@implementer(IPullProducer)
class SliceProducer:
    """Feeds slices to a request as fast as its peer reads them; ``done`` fires at the end or when the peer goes.

    ``before_last`` records the request: a client that has the whole answer finds it in the audit log.
    """

    def __init__(
        self, http: HTTPRequest, slices: Sequence[bytes], before_last: Callable[[], object] | None = None
    ) -> None:
        self._http = http
        self._before_last = before_last
        self._count = len(slices)
        self._next = 0
        self._pending: Pending | None = None
        self._share: HeldBytes | None = None
        self.done: Deferred[None] = Deferred()
        self._slices = slices
        self._part: Callable[[int], bytes] = slices.part if isinstance(slices, Parts) else slices.__getitem__

    def count(self, pending: Pending) -> None:
        """Counts the bytes that wait for this client in ``pending``, except a list's objects, which are in memory anyway."""
        self._pending = pending
        self._share = HeldBytes(pending)
        self._share.add(self._slices.held() if isinstance(self._slices, Parts) else self._slices)
        pending.keep(self)

    def stalled(self) -> None:
        """Counts the list's objects, too: they may be changed or deleted before the client reads on."""
        if self._share is not None and isinstance(self._slices, Parts):
            self._share.add(self._slices.kept())

    def cut_off(self) -> None:
        """Aborts the response, because the memory is needed for others."""
        self._http.abort()
        self.stopProducing()

    def resumeProducing(self) -> None:
        number, count = self._next, self._count
        if number >= count:
            self._finish()
            return
        data = self._part(number)
        number += 1
        if len(data) < SLICE and number < count:
            data, number = self._gathered(data, number)
        self._next = number
        if self._pending is not None:
            self._pending.progress(self)
        if number >= count and self._before_last is not None:
            self._before_last()
        self._http.write(data)
        if number >= count:
            self._finish()

    def _gathered(self, first: bytes, number: int) -> tuple[bytes, int]:
        """Joins several small parts; returns the joined part and the number of parts so far."""
        size, chunks = len(first), [first]
        while number < self._count and size < SLICE:
            chunks.append(self._part(number))
            size += len(chunks[-1])
            number += 1
        return b"".join(chunks), number

    def _finish(self) -> None:
        if self.done.called:
            return
        self._forget()
        self._http.unregisterProducer()
        self._http.finish()
        self.done.callback(None)

    def _forget(self) -> None:
        self._count, self._part, self._slices, self._before_last = 0, _nothing, (), None
        if self._pending is not None:
            self._pending.leave(self)
            self._pending = self._share = None

    def stopProducing(self) -> None:
        self._forget()
        if not self.done.called:
            self.done.callback(None)


def _nothing(number: int) -> bytes:
    """Stands for the parts of an answer that is over, so that they are freed."""
    return b""
