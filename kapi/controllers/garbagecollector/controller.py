"""Follows all caches by the streams that feed them, and executes the decisions.

Existing objects are read in slices soon after the start; nothing is decided before this is complete.  A large change, such as an
object with thousands of owners or the end of an owner with thousands of dependents, is applied to the graph in slices.  Later
changes wait meanwhile (``kapi/process/in_order.py``), so the graph always follows the order of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from twisted.internet.defer import CancelledError, Deferred, FirstError, execute, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.controllers.events import CoreEventRecorder
from kapi.controllers.garbagecollector import reconcile
from kapi.controllers.garbagecollector.elsewhere import Monitors
from kapi.controllers.garbagecollector.graph import Graph, Node
from kapi.controllers.garbagecollector.metadata import (
    FOREGROUND,
    MARKS,
    ORPHAN,
    UNREADABLE,
    Metadata,
    Reference,
    concerned,
    owned,
    read,
    uid_of,
)
from kapi.controllers.garbagecollector.places import Place, Places
from kapi.machinery import status
from kapi.machinery.checkpoint import in_one_piece
from kapi.machinery.each import costly, elements
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.process.driver import Call
from kapi.process.in_order import InOrder
from kapi.runtime.sliced import begin, register
from kapi.runtime.workqueue import WorkQueue
from kapi.watchcache.cache import Cache
from kapi.watchcache.event import DELETED, CacheEvent
from kapi.watchcache.split_caches import AnyCaches, caught_up

WORKERS = 20
_FIRST_READING_SECONDS = 0.1  # seconds after the start: requests come first
_RETRY_SECONDS = 0.5  # seconds after which unknown kinds are looked up again, many at once
_MAX_OWNERS_AT_ONCE = 256  # owners of one object that are looked up without a pause
_MAX_OWNER_LOOKUPS = 8  # concurrent look-ups of owners, each of which may be large
_MAX_WAITING = 10_000  # waiting changes; with more, the resource is read again
_IGNORED = frozenset([GroupResource("", "events")])


class GarbageCollector:
    """``call`` runs long computations."""

    name = "garbage-collector-controller"
    marks = MARKS
    log = Logger()

    def __init__(
        self,
        caches: AnyCaches,
        places: Places,
        reactor: IReactorTime,
        events: CoreEventRecorder,
        call: Call = execute,
        delay: float = _FIRST_READING_SECONDS,
    ) -> None:
        self._caches = caches
        self._places = places
        self._reactor = reactor
        self._events = events
        self._call = call
        self._delay = delay
        self.graph = Graph()
        self._order = InOrder(call, lambda function: reactor.callLater(0, function))
        self._queue: WorkQueue[str] = WorkQueue(reactor, self.name, self._handle, WORKERS)
        self._unread: dict[Cache, None] = {}
        self._reading: Deferred[None] | None = None
        self._due: set[str] = set()  # nodes to decide when all objects have been read
        self._unresolved: set[str] = set()  # nodes with an owner whose kind is not served
        self._retry: IDelayedCall | None = None
        self._stopped = False
        register(reactor, self)
        self._monitors: Monitors | None = None
        if places.remotes is not None:
            self._monitors = Monitors(places.remotes, reactor, self.observe, self.forget)

    async def start(self) -> None:
        self._places.listeners.append(self._served_otherwise)
        self._caches.observe(self)
        self.loaded(self._caches.all())
        if self._monitors is not None:
            self._monitors.start()

    def stop(self) -> None:
        self._stopped = True
        if self._served_otherwise in self._places.listeners:
            self._places.listeners.remove(self._served_otherwise)
        self._caches.ignore(self)
        if self._monitors is not None:
            self._monitors.stop()
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        if self._reading is not None:
            self._reading.cancel()
        self._order.clear()
        self._queue.stop()

    @property
    def idle(self) -> bool:
        """Whether all events so far have been processed."""
        return self._reading is None and not self._order and self._queue.idle

    def busy(self, within: float) -> bool:
        """Whether events wait for the graph; the work queue reports itself."""
        return (self._reading is not None or bool(self._order)) and not self._stopped

    # -- the stream

    def concerns(self, event: CacheEvent) -> bool:
        if event.kind == DELETED:
            return bool(self.graph) or bool(self._order) or self._reading is not None
        previous = event.previous
        return concerned(event.entry.data) or (previous is not None and owned(previous.data))

    def changed(self, events: Sequence[tuple[Cache, CacheEvent]]) -> None:
        for cache, event in events:
            previous = event.previous
            long = event.entry.is_large or (previous is not None and previous.is_large)
            if long or self._order:
                if len(self._order) < _MAX_WAITING:
                    self._order.add(self._take_in, cache, event, self._observe, self._forget, long=long)
                else:
                    self.loaded([cache])
            else:
                self._take_in(cache, event, self.observe, self.forget)

    def _take_in(
        self,
        cache: Cache,
        event: CacheEvent,
        observe: Callable[[GroupResource, str, str, Metadata], None],
        forget: Callable[[str], None],
    ) -> None:
        entry = event.entry
        try:
            if event.kind == DELETED:
                forget(uid_of(entry.data))
            elif cache.resource not in _IGNORED:
                observe(cache.resource, entry.namespace, entry.name, read(entry.data))
        except UNREADABLE as error:
            self.log.info("{key} cannot be read: {error}", key=entry.key, error=str(error))
        except Exception:  # a fault of this object only
            self.log.failure("a change of {key} was not understood", key=entry.key)

    def loaded(self, caches: Iterable[Cache]) -> None:
        """Reads these caches again, as at the start or after a fault."""
        self._unread.update(dict.fromkeys(caches))
        if self._reading is None and not self._stopped:
            self._reading = begin(self._reactor, self._read())
            self._reading.addErrback(self._reading_ended)

    def _reading_ended(self, failure: Failure) -> None:
        self._reading = None
        if not failure.check(CancelledError):
            self.log.failure("what there is could not be read", failure)

    async def _read(self) -> None:
        await deferLater(self._reactor, self._delay)
        while self._unread:
            cache = next(iter(self._unread))
            del self._unread[cache]
            self._order.add(self._read_cache, cache, long=True)
            if not self._unread:
                self._order.add(self._look_at_all, long=True)
            await self._all_taken_in()
        self._reading = None
        due, self._due = self._due, set()
        self._look_at(due)

    def _read_cache(self, cache: Cache) -> None:
        for entry in elements(cache.list()[0]):
            if not concerned(entry.data) or cache.resource in _IGNORED:
                continue
            try:
                if cache.get(entry.namespace, entry.name) is entry:  # otherwise its event was or will be handled
                    self.graph.observe(cache.resource, entry.namespace, entry.name, read(entry.data))
            except Exception as error:
                self.log.info("{key} cannot be read: {error}", key=entry.key, error=str(error))
        for node in elements(list(self.graph.of(cache.resource))):
            if not self._is_there(cache, node):
                self._forget(node.uid)

    def _look_at_all(self) -> None:
        """Queues all nodes, since loaded objects may have owners whose deletion was not observed."""
        for node in costly(list(self.graph.nodes.values())):
            if node.waits or node.orphans or not self._surely_stays(node):
                self._due.add(node.uid)

    def _is_there(self, cache: Cache, node: Node) -> bool:
        try:
            entry = cache.get(node.namespace, node.name)
            return entry is not None and uid_of(entry.data) == node.uid
        except Exception:  # it exists and cannot be decoded
            return True

    async def _all_taken_in(self) -> None:
        """Waits until all events so far are in the graph."""
        waiting = self._order.done()
        if waiting is not None:
            await waiting

    def observe(self, resource: GroupResource, namespace: str, name: str, seen: Metadata) -> None:
        """Takes the current state of an object, and queues the nodes to decide.

        Raises TooManyRequests when so much is queued that the caller must try again.
        """
        node = self.graph.nodes.get(seen.uid)
        long = (
            len(seen.owners) > _MAX_OWNERS_AT_ONCE
            or (node is not None and len(node.owners) > _MAX_OWNERS_AT_ONCE)
            or (seen.waits and self.graph.has_many_dependents(seen.uid))
        )
        self._do(self._observe, resource, namespace, name, seen, long=long)

    def forget(self, uid: str) -> None:
        """Removes an object that does not exist any more.  Raises as ``observe``."""
        node = self.graph.nodes.get(uid)
        long = (node is not None and len(node.owners) > _MAX_OWNERS_AT_ONCE) or self.graph.has_many_dependents(uid)
        self._do(self._forget, uid, long=long)

    def _do(self, function: Callable[..., None], *arguments: object, long: bool) -> None:
        """Applies changes of the graph one after the other."""
        if not (long or self._order):
            with in_one_piece():
                function(*arguments)
        elif len(self._order) < _MAX_WAITING:
            self._order.add(function, *arguments, long=long)
        else:
            raise status.too_many_requests("too many changes wait for the garbage collector", 1)

    def _observe(self, resource: GroupResource, namespace: str, name: str, seen: Metadata) -> None:
        concerned_now = self.graph.observe(resource, namespace, name, seen)
        if seen.uid in concerned_now and not (seen.waits or seen.orphans):
            if self._surely_stays(self.graph.nodes[seen.uid]):
                concerned_now.discard(seen.uid)
        self._look_at(concerned_now)

    def _forget(self, uid: str) -> None:
        self._look_at(self.graph.forget(uid))

    def _surely_stays(self, node: Node) -> bool:
        """Whether all owners are in the caches, which is usual: then nothing must be read."""
        if len(node.owners) > _MAX_OWNER_LOOKUPS:
            return False
        for reference in node.owners:
            owner = self.graph.nodes.get(reference.uid)
            place = self._places.find(reference.api_version, reference.kind)
            if (owner is not None and owner.waits) or place is None or (place.namespaced and not node.namespace):
                return False
            if not place.surely_has(node.namespace if place.namespaced else "", reference.name, reference.uid):
                return False
        return True

    def _look_at(self, uids: Iterable[str]) -> None:
        if self._reading is not None:
            self._due.update(uids)
            return
        for uid in elements(uids):
            self._queue.add(uid)

    def _served_otherwise(self) -> None:
        if self._unresolved and (self._retry is None or not self._retry.active()):
            self._retry = self._reactor.callLater(_RETRY_SECONDS, self._resolve)

    def _resolve(self) -> None:
        uids, self._unresolved = self._unresolved, set()
        self._look_at(uids)

    # -- decisions

    async def _handle(self, uid: str) -> float | None:
        node = self.graph.nodes.get(uid)
        if node is None:
            return None
        place = self._places.of(node.resource)
        if place is None:
            self._unresolved.add(uid)
            return None
        try:
            seen = await place.metadata(node.namespace, node.name)
            if seen is None or seen.uid != uid:
                self.forget(uid)
            elif node.orphans and seen.orphans:
                await self._caught_up()
                await self._orphan(place, node)
            elif node.waits and seen.waits:
                await self._caught_up()
                if not self.graph.blocked(uid):
                    await self._change(place, node, lambda tree: reconcile.without_finalizer(tree, FOREGROUND))
            elif seen.owners:
                await self._decide(place, node, seen)
        except status.NotFound:
            return None
        except status.Conflict:
            return 0.0  # it is another object now: decide again
        return None

    async def _caught_up(self) -> None:
        """Waits until dependents that were acknowledged before are in the graph: they may be in another store, or large."""
        await caught_up(self._caches)
        await self._all_taken_in()

    async def _decide(self, place: Place, node: Node, seen: Metadata) -> None:
        states = []
        for number, reference in enumerate(costly(seen.owners), 1):
            states.append(await self._state(node, reference))
            if number % _MAX_OWNERS_AT_ONCE == 0:
                await deferLater(self._reactor, 0)
        if reconcile.Owner.UNKNOWN in states:
            self._unresolved.add(node.uid)
        for reference in reconcile.referring(seen.owners, states, reconcile.Owner.MISPLACED):
            await self._events.record(reconcile.misplaced_event(node, seen, reference))
        dependents = self.graph.dependents(node.uid)
        decision = reconcile.decide(
            seen, states, has_dependents=bool(dependents), in_circle=any(dependent.waits for dependent in dependents)
        )
        if isinstance(decision, reconcile.Release):
            uids = decision.uids
            await self._change(place, node, lambda tree: reconcile.without_owners(tree, uids))
        elif isinstance(decision, reconcile.Delete):
            await self._delete(place, node, seen, decision)

    async def _delete(self, place: Place, node: Node, seen: Metadata, decision: reconcile.Delete) -> None:
        preconditions = {"uid": node.uid}
        if decision.unblock:
            await self._change(place, node, reconcile.unblocking)
        else:
            preconditions["resourceVersion"] = seen.resource_version
        options = {"preconditions": preconditions, "propagationPolicy": decision.propagation}
        await place.delete(node.namespace, node.name, options)

    async def _orphan(self, place: Place, node: Node) -> None:
        """Removes the owner from its dependents, then the finalizer from the owner."""
        dependents = self.graph.dependents(node.uid)
        for start in range(0, len(dependents), WORKERS):
            together = dependents[start : start + WORKERS]
            try:
                await gatherResults([self._released(one, node.uid) for one in together], consumeErrors=True)
            except FirstError as first:
                raise first.subFailure.value from None  # type: ignore[misc]
        await self._change(place, node, lambda tree: reconcile.without_finalizer(tree, ORPHAN))

    def _released(self, dependent: Node, uid: str) -> Deferred[None]:
        async def release() -> None:
            place = self._places.of(dependent.resource)
            if place is not None:
                await self._change(place, dependent, lambda tree: reconcile.without_owners(tree, frozenset([uid])))

        return begin(self._reactor, release())

    async def _change(self, place: Place, node: Node, patch_of: Callable[[Object], Object | None]) -> None:
        """Changes an object; one that is deleted or replaced needs no change.  Raises Conflict when it changes meanwhile."""
        tree = await place.tree(node.namespace, node.name)
        patch = None if tree is None or tree["metadata"].get("uid") != node.uid else patch_of(tree)
        if patch is None:
            return
        try:
            await place.patch(node.namespace, node.name, patch)
        except status.NotFound:
            return

    async def _state(self, node: Node, reference: Reference) -> reconcile.Owner:
        gone = self.graph.gone(reference.uid)
        place = self._places.find(reference.api_version, reference.kind)
        if place is None:
            return reconcile.Owner.ABSENT if gone else reconcile.Owner.UNKNOWN
        if place.namespaced and not node.namespace:
            return reconcile.Owner.MISPLACED
        found = await place.metadata(node.namespace if place.namespaced else "", reference.name)
        if found is not None and found.uid == reference.uid:
            return reconcile.Owner.WAITING if found.waits else reconcile.Owner.SOLID
        if not gone:
            if place.namespaced and await place.somewhere(reference.name, reference.uid):
                return reconcile.Owner.MISPLACED
            self.graph.set_gone(reference.uid)
        return reconcile.Owner.ABSENT
