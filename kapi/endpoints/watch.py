"""WATCH: writes batches of events from the cache to one client (upstream: ``endpoints/handlers/watch.go``).

An event is encoded once for all watches with the same form; here its bytes are only written.  The client's socket pauses the
watch, and the cache ends a watch when too many events are queued for it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.codecs.negotiation import output_media_type
from kapi.endpoints.encoding import MIN_SHARED_BYTES
from kapi.endpoints.options import ListOptions, begins_with_objects, boolean, check_initial_events, list_options
from kapi.endpoints.scope import RequestScope, path_name
from kapi.endpoints.selection import predicate_of, without_conversion
from kapi.endpoints.tunnel import wants_websocket
from kapi.endpoints.watch_form import Form, form_of, frame_head
from kapi.machinery import status
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.importing import import_in_thread
from kapi.process.driver import Call, Sliced
from kapi.registry.conversion import Unconverted, converting
from kapi.registry.read import UNCACHED, parse_revision
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.response import Response, StreamResponse
from kapi.resources.shared.features import enabled
from kapi.runtime.sliced import call_of
from kapi.store.errors import Compacted
from kapi.watchcache.cache import Batch
from kapi.watchcache.counts import SentBatch
from kapi.watchcache.watch import Watch

log = Logger()

_TOO_OLD = "The resourceVersion for the provided watch is too old."  # of a store; caches have another text


async def watch_objects(ctx: RequestContext, scope: RequestScope) -> Response:
    """A stream of events.  Raises StatusError for errors before the stream begins."""
    info = ctx.info
    assert info is not None
    refusal: status.NotAcceptable | None = None
    try:
        media = output_media_type(ctx, "watch")
    except status.NotAcceptable as refused:  # a form that lists accept is refused only after all other checks
        media, refusal = output_media_type(ctx, "list"), refused
    options = list_options(ctx)
    name = path_name(ctx)
    predicate = predicate_of(scope, options, name)
    since = parse_revision(options.resource_version)
    if options.send_initial_events is not None:
        check_initial_events(scope.store.environment.features)
    if refusal is not None:
        raise refusal
    converted = predicate if predicate is not None and predicate.read is not None else None
    if converted is not None:
        predicate = without_conversion(converted)
    include = ctx.first("includeObject", "Metadata") if media.as_kind == "Table" else ""
    form = form_of(scope, media, include) if converted is None else Form(scope, media, include, converted)
    cache = scope.store.cache
    features = scope.store.environment.features
    initial = options.send_initial_events
    by_default = bool(boolean(ctx, "watch")) and begins_with_objects(options) and enabled(features, "WatchList")
    if initial is None:
        initial = since == 0
    error: status.StatusError | None = None
    try:
        waiting = None
        if initial and since and options.send_initial_events:
            waiting = cache.wait_for(since)
        elif options.resource_version == "":
            waiting = cache.wait_fresh()
        else:
            waiting = cache.wait_loaded()
        if waiting is not None:
            await waiting
    except (status.Timeout, status.TooManyRequests) as caught:
        error = caught
    stream = WatchStream(ctx, scope, form, options, timeout_of(options, scope.store.environment.min_request_timeout))
    if error is not None:
        stream.error = error
    else:
        listed = options.send_initial_events or by_default
        initial_end = stream.notes_listed = bool(listed and options.allow_watch_bookmarks)
        stream.begin = partial(
            cache.watch,
            since=None if initial or since == 0 else since,
            namespace=info.namespace if scope.resource.namespaced else "",
            name=(predicate.fields.exact("metadata.name") or "") if predicate is not None else "",
            predicate=predicate,
            initial_events=initial,
            initial_end=initial_end,
            bookmarks=options.allow_watch_bookmarks,
            timeout=stream.timeout,
        )
    if wants_websocket(ctx):
        await in_slices
        import_in_thread("kapi.endpoints.watch_websocket")
        from kapi.endpoints.watch_websocket import websocket_response  # imported only when it is used

        return websocket_response(ctx, stream.run, media.binary, frame_head(media))
    return StreamResponse(stream.run, content_type=media.content_type, headers=())


def timeout_of(options: ListOptions, least: int) -> float:
    """Seconds until the stream ends, or infinity; 0 for a negative option, with which it ends before its first event.

    ``least`` is ``--min-request-timeout`` in seconds.
    """
    if options.timeout_seconds:
        return float(max(options.timeout_seconds, 0))
    return least * (1 + random.random()) or math.inf


@implementer(IPushProducer)
class WatchStream:
    """Writes one watch to one client until either side ends it; small, because there may be ten thousand."""

    notes_listed: bool  # whether the time of the initial events is measured; set together with ``begin``

    __slots__ = (
        "_ctx", "_scope", "_form", "timeout", "_watch", "_http", "_write", "_framing", "_call", "_headers_sent", "error",
        "begin", "notes_listed", "done", "_paused", "_converting", "_held", "_work",
    )  # fmt: skip

    def __init__(
        self, ctx: RequestContext, scope: RequestScope, form: Form, options: ListOptions, timeout: float
    ) -> None:
        self._ctx = ctx
        self._scope = scope
        self._form = form
        self.timeout = timeout
        self._watch: Watch | None = None
        self._http: HTTPRequest
        self._write: Callable[[bytes], object]  # set in ``run``
        self._framing = ""  # "chunk" or "message" when the stream frames its events itself
        self._call: IDelayedCall | None = None
        self._headers_sent = not form.table
        self._paused = False  # whether the client has paused it
        self._held = False  # whether ``hold`` has paused it
        # whether a batch is being converted or encoded in slices; later ones wait in the watch
        self._converting = False
        self._work: Deferred[bytes | None] | None = None  # the encoding of a batch in slices
        self.error: status.StatusError | None = None  # the only event to send
        self.begin: Callable[..., Watch] | None = None  # starts the watch
        self.done: Deferred[None] = Deferred()

    def run(self, http: HTTPRequest) -> Deferred[None]:
        """Starts the watch and writes its events; fires when the stream has ended."""
        self._http = http
        http.registerProducer(self, True)
        http.write(b"")  # the headers go out before the first event
        self._write = http.write
        chunks, messages = getattr(http, "chunk_writer", None), getattr(http, "message_writer", None)
        for framing, writer in (("chunk", chunks), ("message", messages)):
            write = writer() if writer is not None else None
            if write is not None:
                self._framing, self._write = framing, write
        if not self.timeout:
            self._finish()
            return self.done
        try:
            if self.error is not None:
                raise self.error
            begin, self.begin = self.begin, None
            assert begin is not None
            # only here, as a stream that never begins would refer to itself
            listed = self.listed if self.notes_listed else None
            self._watch = begin(on_batch=self._on_batch, on_end=self._on_end, on_listed=listed)
        except (status.StatusError, Compacted) as error:
            self._write_error(error)
            self._finish()
            return self.done
        started = self._ctx.release_seats
        if started is not None:
            started(self._ctx)  # a running watch occupies no seats
        if self.timeout < math.inf:
            self._call = self._scope.store.environment.timers.callLater(self.timeout, self._finish)
        ending = self._ctx.watches
        if ending is not None:
            ending.add(self)
        self._ctx.shrink()
        return self.done

    def listed(self) -> None:
        """Called when all initial events have been sent, before their bookmark."""
        ctx, namespace = self._ctx, self._ctx.info.namespace if self._ctx.info is not None else ""
        scope = "resource" if path_name(ctx) else "namespace" if namespace else "cluster"
        self._form.sent.listed(scope, ctx.reactor.seconds() - ctx.received)

    def _on_batch(self, batch: Batch) -> None:
        form = self._form
        if form.stored:
            if batch.size >= MIN_SHARED_BYTES:
                self._write_stored(batch)
                return
        elif form.takes_long(batch) and not batch.is_encoded(self._form_and_encoder()[0]):
            call = call_of(self._ctx.reactor)
            if call is not None:
                self._encode_in_slices(batch, call)
                return
        try:
            data = self._encoded(batch)
        except Unconverted:
            self._convert(batch)
        else:
            self._write(data)

    def _write_stored(self, batch: Batch) -> None:
        """Sends large objects as they are stored: nothing is copied, and all clients that wait for one share its bytes."""
        form = self._form
        key, encode = self._form_and_encoder()
        counted = SentBatch([])
        for event in batch.events:
            assert event.entry is not None  # a bookmark is a batch of its own
            if len(event.entry.data) < MIN_SHARED_BYTES:
                parts: Sequence[bytes] = (event.encoded(key, encode),)
            else:
                parts = form.parts(event.type, event.entry.data, self._framing)
            counted.sizes.append(sum(map(len, parts)))
            for part in parts:
                self._write(part)
        counted.times = 1
        form.sent.begin(counted)

    def _encode_in_slices(self, batch: Batch, call: Call) -> None:
        """Encodes a large batch in slices.  Events that arrive meanwhile are queued in the watch."""

        def encode() -> bytes | None:
            try:
                return self._encoded(batch)
            except Unconverted:
                return None

        work = self._form.queue.run(lambda: call(encode))
        if not work.called:
            assert self._watch is not None  # the batch is from this watch
            self._work, self._converting = work, True
            self._watch.pause()
        work.addCallback(self._encoded_in_slices, batch).addErrback(self._not_encoded)

    def _encoded_in_slices(self, data: bytes | None, batch: Batch) -> None:
        """Called with the encoded batch; None when the conversion webhook must convert it first."""
        self._work = None
        if data is None and not self.done.called:
            self._convert(batch)
        elif data is not None:
            self._converted(data)

    def _not_encoded(self, failure: Failure) -> None:
        self._work = None
        if not failure.check(CancelledError):
            log.failure("encoding watch events failed; the watch ends", failure)
            self._finish()

    def _encoded(self, batch: Batch) -> bytes:
        form = self._form
        if self._headers_sent and self._framing == "chunk":  # nearly all, and each event comes here for each watch
            return batch.encoded(form.chunk_key, form.encode_chunk, form.sent)
        key, encode = self._form_and_encoder()
        first = None if self._headers_sent else partial(encode, headers=True)
        data = batch.encoded(key, encode, form.sent, first)
        self._headers_sent = True
        return data

    def _form_and_encoder(self) -> tuple[Hashable, Callable[..., bytes]]:
        """The form and the encoder of the next batch."""
        key: Hashable
        form, framing = self._form, self._framing
        if framing == "chunk":
            key, encode = form.chunk_key, form.encode_chunk
        elif framing:
            key, encode = form.message_key, form.encode_message
        else:
            key, encode = form.key, form.encode
        return (key, encode) if self._headers_sent else ((key, "headers"), encode)

    def _convert(self, batch: Batch) -> None:
        """Converts a batch by one call of the conversion webhook.  Events that arrive meanwhile are queued in the watch."""
        assert self._watch is not None  # the batch is from this watch
        self._converting = True
        self._watch.pause()

        async def encode() -> bytes:
            return self._encoded(batch)

        converter = self._scope.resource.converter
        assert converter is not None  # it has raised Unconverted
        run = converting(converter, encode, lambda: self._form.unconverted(batch))
        waiting = Sliced(run, self._scope.store.cache.call).done
        waiting.addCallbacks(self._converted, self._not_converted)
        waiting.addErrback(lambda failure: log.failure("converting watch events failed", failure))

    def _converted(self, data: bytes) -> None:
        self._converting = False
        if self.done.called:
            return
        self._write(data)
        self._resume()

    def _not_converted(self, failure: Failure) -> None:
        if not self.done.called:
            self._on_end(status.internal(str(failure.value)))

    def _on_end(self, error: Exception | None) -> None:
        if error is not None:
            self._write_error(error)
        self._finish()

    def _write_error(self, error: Exception) -> None:
        if isinstance(error, Compacted):
            uncached = self._scope.store.group_resource in UNCACHED
            error = status.expired(_TOO_OLD if uncached else str(error))
        self._http.write(self._form.error(error))

    def end(self) -> None:
        """Ends the stream without an error, when the server shuts down."""
        self._finish()

    def fail(self, error: status.StatusError) -> None:
        """Sends an error as the last event, and ends the stream."""
        if not self.done.called:
            self._on_end(error)

    def _finish(self) -> None:
        if self.done.called:
            return
        self._stop()
        self._http.unregisterProducer()
        self._http.finish()
        self.done.callback(None)

    def _stop(self) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        ending = self._ctx.watches
        if ending is not None:
            ending.discard(self)

    def pauseProducing(self) -> None:
        self._paused = True
        if self._watch is not None:
            self._watch.pause()

    def resumeProducing(self) -> None:
        self._paused = False
        self._resume()

    def hold(self) -> None:
        """Pauses the stream until ``release``; events are queued as for a slow client."""
        self._held = True
        if self._watch is not None:
            self._watch.pause()

    def release(self) -> None:
        self._held = False
        self._resume()

    def _resume(self) -> None:
        if self._watch is not None and not (self._paused or self._converting or self._held):
            self._watch.resume()

    def stopProducing(self) -> None:
        self._stop()
        if not self.done.called:
            self.done.callback(None)
