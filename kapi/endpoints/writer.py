"""The one place where an answer goes onto the wire (upstream: ``endpoints/handlers/responsewriters``).

Whole answers are written at once; a list of slices leaves through a pull producer, so that a 26 MB list never stands
in memory a second time; large answers are compressed in a thread when the client asked for gzip.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Iterable, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPullProducer
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

from kapi.machinery.warnings import MAX_CHARACTERS
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.pending import Pending, Share
from kapi.request.response import SLICE, HijackedResponse, Parts, Response, StreamResponse, leaves_whole

GZIP_FROM = 128 * 1024  # bytes
LARGE = 512 * 1024  # bytes of a list that counts while its client does not read


def warning_header(text: str) -> bytes:
    """``299 - "text"`` as RFC 9110 quotes it."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    return f'299 - "{quoted}"'.encode()


def write(ctx: RequestContext, response: Response) -> None | Awaitable[None]:
    """Writes the answer; None when it is out, else an awaitable of that."""
    http = ctx.http
    if isinstance(response, HijackedResponse):
        return None
    http.setResponseCode(response.status)
    fields = [*ctx.response_headers, *response.headers]
    if response.content_type:
        fields.append((b"Content-Type", response.content_type))
    if ctx.warnings:
        fields += [(b"Warning", value) for value in _warning_headers(ctx.warnings)]
    body = response.body
    if leaves_whole(response):
        http.write_whole(fields, body)  # type: ignore[arg-type]  # it is bytes
        return None
    headers = http.responseHeaders
    for name, value in fields:
        headers.addRawHeader(name, value)
    if isinstance(response, StreamResponse):
        return response.run(http)
    slices: Sequence[bytes] = WholeBody(body) if isinstance(body, bytes) else body
    size = slices.size if isinstance(slices, Parts) else sum(map(len, slices))
    if size >= GZIP_FROM and _wants_gzip(ctx):
        return _write_compressed(ctx, slices)
    headers.setRawHeaders(b"content-length", [b"%d" % size])
    if size < LARGE:
        return _produce(http, slices)
    return _produce(http, slices, ctx.pending)


def _warning_headers(warnings: list[str]) -> list[bytes]:
    remaining = MAX_CHARACTERS
    values = []
    for text in warnings:
        if len(text) > remaining:
            text = text[:remaining]
        if text:
            values.append(warning_header(text))
        remaining -= len(text)
    return values


def _wants_gzip(ctx: RequestContext) -> bool:
    """Whether the word stands there alone, as upstream looks for it: ``gzip;q=0`` means the opposite."""
    accepted = ctx.header("accept-encoding") or ""
    return any(part.strip() == "gzip" for part in accepted.split(","))


async def _write_compressed(ctx: RequestContext, slices: Sequence[bytes]) -> None:
    http = ctx.http
    http.responseHeaders.setRawHeaders(b"content-encoding", [b"gzip"])
    http.responseHeaders.addRawHeader(b"vary", b"Accept-Encoding")
    reactor = ctx.reactor
    packed: WholeBody = await deferToThreadPool(reactor, reactor.getThreadPool(), compress, slices)
    http.responseHeaders.setRawHeaders(b"content-length", [b"%d" % packed.size])
    if not http.gone:
        await _produce(http, packed, ctx.pending)


def compress(slices: Iterable[bytes]) -> WholeBody:
    """Gzip, at the level that upstream uses (1)."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    out = [packer.compress(part) for part in slices]
    out.append(packer.flush())
    return WholeBody(b"".join(out))


class WholeBody(Parts):
    """A body that is there as a whole: two hundred streams that nobody reads share one document."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.size = self.held = len(body)

    def __len__(self) -> int:
        return max(1, -(-self.size // SLICE))

    def part(self, position: int) -> bytes:
        return self._body[position * SLICE : (position + 1) * SLICE]


def _produce(http: HTTPRequest, slices: Sequence[bytes], pending: Pending | None = None) -> Deferred[None]:
    producer = SliceProducer(http, slices)
    if pending is not None:
        producer.count(pending)
    http.registerProducer(producer, False)
    return producer.done


@implementer(IPullProducer)
class SliceProducer:
    """Feeds slices to a request as fast as its peer reads them; ``done`` fires at the end or when the peer goes."""

    def __init__(self, http: HTTPRequest, slices: Sequence[bytes]) -> None:
        self._http = http
        self._slices = slices
        self._next = 0
        self._pending: Pending | None = None
        self._share: Share | None = None
        self.done: Deferred[None] = Deferred()

    def count(self, pending: Pending) -> None:
        """What waits for this client counts among what waits for all; parts that are not made yet are nothing."""
        self._pending = pending
        slices = self._slices
        self._share = Share(pending, slices.held if isinstance(slices, Parts) else sum(map(len, slices)))
        pending.progress(self)

    def cut_off(self) -> None:
        """Others need the memory."""
        self._http.abort()
        self.stopProducing()

    def resumeProducing(self) -> None:
        if self._next >= len(self._slices):
            self._finish()
            return
        size = 0
        chunks = []
        while self._next < len(self._slices) and size < SLICE:
            chunks.append(self._slices[self._next])
            size += len(chunks[-1])
            self._next += 1
        if self._pending is not None and self._share is not None:
            self._share.set(max(0, self._share.size - size))
            self._pending.progress(self)
        self._http.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        if self._next >= len(self._slices):
            self._finish()

    def _finish(self) -> None:
        if self.done.called:
            return
        self._forget()
        self._http.unregisterProducer()
        self._http.finish()
        self.done.callback(None)

    def _forget(self) -> None:
        self._slices = []
        if self._pending is not None:
            self._pending.leave(self)
            self._pending = self._share = None

    def stopProducing(self) -> None:
        self._forget()
        if not self.done.called:
            self.done.callback(None)
