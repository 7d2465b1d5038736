"""``/kapi/console/changes``: the changes of all resources as one stream of server-sent events (WHATWG HTML, 9.2).

A page that watched every resource would hold a stream of HTTP/2 for each, and a browser has a hundred of them for all its tabs.
Here one observer of the caches serves all streams, and an event has the object before the change and after it.

A user sees the changes of the resources that the user may watch.  The authorizer is called for each resource, and again after a
while.  A slow client has the same limits as in a watch: of events, of bytes, and of the bytes that wait for all clients
(``kapi.request.pending``).

The first event is ``resources``, with the resources that the user may watch: {"resources": ["pods", "deployments.apps"]}.  A
change is an event without a name: {"type": "MODIFIED", "resource": "pods", "before": {...}, "object": {...}}.  Objects are in
the version in which they are stored.  ``missed`` says that changes may be missing.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Sequence

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from kapi.authorization.forbidden import forbidden_error
from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import StatusError
from kapi.process.driver import trap_cancelled
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.pending import HeldBytes
from kapi.request.response import Response, StreamResponse
from kapi.watchcache.cache import Cache
from kapi.watchcache.event import CacheEvent

log = Logger()

EVENT_STREAM = b"text/event-stream"
RIGHT_SECONDS = 30.0  # after this time the authorizer is called again
MAX_QUEUED_EVENTS = 1000  # the most events for a slow client
MAX_QUEUED_BYTES = 16 * 1024 * 1024
_MISSED = b"event: missed\ndata: {}\n\n"


class Change:
    """A change, shared by all streams to which it is sent."""

    __slots__ = ("cache", "event", "size")

    def __init__(self, cache: Cache, event: CacheEvent) -> None:
        self.cache = cache
        self.event = event
        self.size = sum(map(len, self.objects()))  # bytes

    def objects(self) -> Iterator[bytes]:
        """The bytes of the objects."""
        if self.event.previous is not None:
            yield self.event.previous.data
        yield self.event.entry.data

    def parts(self) -> Iterator[bytes]:
        """The lines of the event.  Large objects are not copied."""
        kind, resource = self.event.kind.encode(), str(self.cache.resource).encode()
        yield b'data: {"type":"%s","resource":"%s"' % (kind, resource)
        if self.event.previous is not None:
            yield b',"before":'
            yield self.event.previous.data
        yield b',"object":'
        yield self.event.entry.data
        yield b"}\n\n"


class Changes:
    """Observes the caches while there are streams."""

    marks: tuple[bytes, ...] = ()

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.streams: dict[ChangeStream, None] = {}

    async def handle(self, ctx: RequestContext) -> Response:
        """Begins a stream; ``?namespace=`` selects one namespace.  Raises Forbidden when the user may watch nothing."""
        stream = ChangeStream(self, ctx, ctx.first("namespace"))
        refusal = None
        for resource, row in list(self.registry.stores.rows()):
            if "watch" not in row.verbs or (stream.namespace and not row.namespaced):
                continue
            verdict = stream.authorize(resource)
            if not isinstance(verdict, Verdict):
                verdict = await verdict
            stream.note(resource, verdict)
            if verdict.decision is not Decision.ALLOW and refusal is None:
                refusal = forbidden_error(stream.attributes(resource), verdict.reason)
        if not stream.allowed() and refusal is not None:
            raise refusal
        return StreamResponse(stream.run, content_type=EVENT_STREAM)

    def add(self, stream: ChangeStream) -> None:
        if not self.streams:
            self.registry.caches.observe(self)
        self.streams[stream] = None

    def remove(self, stream: ChangeStream) -> None:
        if stream in self.streams:
            del self.streams[stream]
            if not self.streams:
                self.registry.caches.ignore(self)

    # -- observing all caches

    def concerns(self, event: CacheEvent) -> bool:
        return True

    def changed(self, events: Sequence[tuple[Cache, CacheEvent]]) -> None:
        for cache, event in events:
            change = Change(cache, event)
            for stream in list(self.streams):
                stream.deliver(change, event.entry.namespace)

    def loaded(self, caches: Iterable[Cache]) -> None:
        for stream in list(self.streams):
            stream.miss()


@implementer(IPushProducer)
class ChangeStream:
    """One client's stream, until either side ends it."""

    def __init__(self, changes: Changes, ctx: RequestContext, namespace: str) -> None:
        self.namespace = namespace
        self._changes = changes
        self._ctx = ctx
        self._http: HTTPRequest | None = None
        self._call: IDelayedCall | None = None
        self._rights: dict[GroupResource, tuple[float, bool]] = {}  # (valid until, whether the user may watch)
        self._queue: deque[tuple[Change, HeldBytes | None]] = deque()
        self._queued_bytes = 0
        self._paused = self._held = False  # paused by the client; held by ``hold``
        self._missed = False
        self._asking: Deferred[None] | None = None  # the call of the authorizer for the first change in the queue
        self.done: Deferred[None] = Deferred()

    # -- rights

    def attributes(self, resource: GroupResource) -> Attributes:
        user, store = self._ctx.user, self._changes.registry.stores.get(resource)
        assert user is not None
        version = store.row.version if store is not None else ""
        return Attributes(
            user, "watch", group=resource.group, version=version, resource=resource.resource, namespace=self.namespace
        )

    def authorize(self, resource: GroupResource) -> Verdict | Awaitable[Verdict]:
        authorizer = self._changes.registry.environment.authorizer
        return Verdict(Decision.ALLOW) if authorizer is None else authorizer.authorize(self.attributes(resource))

    def note(self, resource: GroupResource, verdict: Verdict) -> None:
        self._rights[resource] = (self._ctx.reactor.seconds() + RIGHT_SECONDS, verdict.decision is Decision.ALLOW)

    def allowed(self) -> list[str]:
        """The resources that the user may watch, as far as the authorizer was called."""
        return sorted(str(resource) for resource, (_, allowed) in self._rights.items() if allowed)

    def _may_show(self, resource: GroupResource) -> bool:
        """Whether a change may be sent; False also during a call of the authorizer."""
        until, allowed = self._rights.get(resource, (-math.inf, False))
        if self._ctx.reactor.seconds() < until:
            return allowed
        if resource not in self._changes.registry.stores:
            return False  # its definition was deleted
        verdict = self.authorize(resource)
        if isinstance(verdict, Verdict):
            self.note(resource, verdict)
            return verdict.decision is Decision.ALLOW
        self._asking = Deferred.fromCoroutine(self._ask(resource, verdict))
        self._asking.addErrback(trap_cancelled)
        if self._asking.called:
            self._asking = None
            return self._rights[resource][1]
        return False

    async def _ask(self, resource: GroupResource, verdict: Awaitable[Verdict]) -> None:
        try:
            self.note(resource, await verdict)
        except CancelledError:
            raise
        except Exception:
            log.failure("a change is not shown: asking the authorizer failed")
            self.note(resource, Verdict(Decision.NO_OPINION))
        if self._asking is not None:
            self._asking = None
            self._drain()

    # -- sending

    def run(self, http: HTTPRequest) -> Deferred[None]:
        self._http = http
        http.registerProducer(self, True)
        http.write(b"event: resources\ndata: %s\n\n" % orjson.dumps({"resources": self.allowed()}))
        environment, ctx = self._changes.registry.environment, self._ctx
        if environment.min_request_timeout:
            timers = environment.timers or ctx.reactor
            self._call = timers.callLater(environment.min_request_timeout * (1 + random.random()), self.end)
        if ctx.watches is not None:
            ctx.watches.add(self)
        self._changes.add(self)
        return self.done

    def deliver(self, change: Change, namespace: str) -> None:
        if self.namespace and namespace != self.namespace:
            return
        pending = self._ctx.pending
        held = None
        if pending is not None and (self._queue or self._stopped):
            held = HeldBytes(pending)
            held.add(change.objects())
        self._queue.append((change, held))
        self._queued_bytes += change.size
        self._drain()
        if self._queue and pending is not None:
            pending.wait(self)
        if len(self._queue) > MAX_QUEUED_EVENTS or self._queued_bytes > MAX_QUEUED_BYTES:
            self.cut_off()

    def miss(self) -> None:
        """Tells the client that changes may be missing."""
        self._missed = True
        self._drain()

    @property
    def _stopped(self) -> bool:
        return self._paused or self._held or self._asking is not None

    def _drain(self) -> None:
        """Sends the queue until the client is slow, or the authorizer does not answer at once."""
        sent = False
        while self._queue and not self._stopped:
            change = self._queue[0][0]
            shown = self._may_show(change.cache.resource)
            if self._asking is not None:
                break
            self._queue.popleft()
            self._queued_bytes -= change.size
            sent = True
            if shown and self._http is not None:
                for part in change.parts():
                    self._http.write(part)
        if self._missed and not self._queue and not self._stopped and self._http is not None:
            self._missed = False
            self._http.write(_MISSED)
        pending = self._ctx.pending
        if sent and pending is not None:
            if self._queue:
                pending.progress(self)
            else:
                pending.leave(self)

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        self._drain()

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        self._drain()

    # -- its end

    def stopProducing(self) -> None:
        self._stop()
        if not self.done.called:
            self.done.callback(None)

    def end(self) -> None:
        """Ends the stream without an error.  The page begins another stream."""
        if self.done.called:
            return
        self._stop()
        if self._http is not None:
            self._http.unregisterProducer()
            self._http.finish()
        self.done.callback(None)

    def cut_off(self) -> None:
        """Ends the stream because its client is slow, or because other clients need the memory."""
        self.end()

    def fail(self, error: StatusError) -> None:
        self.end()

    def _stop(self) -> None:
        self._changes.remove(self)
        if self._call is not None and self._call.active():
            self._call.cancel()
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
        if self._ctx.pending is not None:
            self._ctx.pending.leave(self)
        if self._ctx.watches is not None:
            self._ctx.watches.discard(self)
        self._queue.clear()
        self._queued_bytes = 0
