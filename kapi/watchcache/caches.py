"""All watch caches of one store, fed by one reader.

All objects of the store are loaded, even when no definition of their resource is known yet: a CustomResourceDefinition that is
created later finds its objects in the cache.  One event log for all resources bounds the history by age and size; what it drops
is compacted in the store as well.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from sys import intern

from twisted.internet.defer import Deferred, execute
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.machinery.checkpoint import in_one_piece
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource
from kapi.process.driver import Call
from kapi.process.timers import Repeated
from kapi.request.pending import Pending
from kapi.store.entries import OBJECTS
from kapi.store.errors import Compacted, StoreError, StoreUnavailable
from kapi.store.interface import DELETED as GONE
from kapi.store.interface import Change, Store, StoredObject
from kapi.store.table import Value
from kapi.watchcache.cache import Cache
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import ByteBudget, Entry, Fields, Scope, SharedScope, check_of
from kapi.watchcache.event import Batch
from kapi.watchcache.event_log import HISTORY_BYTES, HISTORY_SECONDS, EventLog, LoggedEvent
from kapi.watchcache.fan_out import FanOut
from kapi.watchcache.freshness import Freshness
from kapi.watchcache.loading import TYPES, KeptElsewhere, Loaded, read_history, read_objects
from kapi.watchcache.observers import Observer, Observers
from kapi.watchcache.reload import Reload
from kapi.watchcache.turns import Turns
from kapi.watchcache.unreadable import Unreadable
from kapi.watchcache.watch import BookmarkWheel, Source

log = Logger()

_TRIM_SECONDS = 10  # how often the history is trimmed; more often when it is kept for a shorter time
#: bytes of JSON of the objects whose decoded trees are kept; a tree takes six to eight times as much memory, and decoding it
#: again takes 5 us per kB
MAX_DECODED_BYTES = 500_000
MAX_ENCODED_BYTES = 64_000_000  # bytes of JSON of the objects whose protobuf form is kept
# since the last trimming; with more changes nothing is compressed, so that requests get the processor
_MAX_CALM_CHANGES = 1000
#: how long the cache of a removed resource stays at least: longer than any request that still uses it
_MIN_REMOVED_SECONDS = 120.0


class Caches:
    """``history_age`` (seconds) and ``history_bytes`` bound how far back watches and lists can go.

    ``call`` runs long computations in slices.  ``main`` are the caches of another store in this process: the limits on decoded
    objects and on bytes waiting for clients are then shared with them, and the caller must call ``tick`` once a second.
    ``keeps`` tells which resources this store holds; None for all.
    """

    def __init__(
        self,
        store: Store,
        reactor: IReactorTime,
        *,
        history_age: float = HISTORY_SECONDS,
        history_bytes: int = HISTORY_BYTES,
        call: Call = execute,
        main: Caches | None = None,
        keeps: Callable[[GroupResource], bool] | None = None,
    ) -> None:
        self.call = call
        self._keeps = keeps
        self.misplaced: Counter[str] = Counter()  # by resource: objects in this store that belong into another store
        self.pending: Pending | None = None if main is None else main.pending  # bytes that wait for slow clients
        self.store = store
        self.ready = False
        self.revision = 0
        self.floor = 0  # history up to and including this revision is gone
        self.skipped = store.skipped
        self.bookmarks = BookmarkWheel(reactor.seconds)
        self._reactor = reactor
        self._caches: dict[tuple[str, str], Cache] = {}
        self._removed: dict[
            tuple[str, str], float
        ] = {}  # removed resources that still have a cache: when they were removed
        if main is None:
            self._decoded = ByteBudget(MAX_DECODED_BYTES, Entry.forget_object)
            self._encoded = ByteBudget(MAX_ENCODED_BYTES, Entry.forget_message)
        else:
            self._decoded, self._encoded = main._decoded, main._encoded
        self._ticks_itself = main is None
        self._log = EventLog(history_age, history_bytes)
        self._freshness = Freshness(store, reactor, lambda: self.revision)
        self._not_ready: list[Deferred[None]] = []  # reads that wait until the store has been loaded
        self._observers = Observers()
        self.turns: Turns = Turns(self.later) if main is None else main.turns
        self._fan_out = FanOut(reactor, self._observers)
        self.dirty = self._fan_out.dirty  # groups with undelivered events
        self._ticker = Repeated(self.tick, reactor, "bookmarks and the trimming of history")
        self._ticks = 0
        self._old = 0  # the newest revision when the history was last trimmed
        self._packing = False
        self._loading = False  # whether contents for all caches are being prepared
        self._trim_every = max(1, int(min(_TRIM_SECONDS, history_age)))  # seconds

    # -- for readers

    def cache(self, resource: GroupResource, fields: Fields | None = None, namespaced: bool | None = None) -> Cache:
        """The resource's cache, made on first use; ``fields`` and ``namespaced`` are replaced unless None."""
        place = resource.group or "core", resource.resource
        cache = self._cache_of(*place)
        self._removed.pop(place, None)
        if fields is not None or namespaced is not None:
            cache.set_fields(fields, namespaced)
        return cache

    @property
    def parts(self) -> Sequence[Caches]:
        """The caches of each store; here there is one store."""
        return (self,)

    def of(self, resource: GroupResource) -> Caches:
        """The caches of the store that holds a resource."""
        return self

    def find(self, resource: GroupResource) -> Cache | None:
        """The resource's cache, None when it has not been made."""
        return self._caches.get((resource.group or "core", resource.resource))

    def remove(self, resource: GroupResource) -> None:
        """Ends all watches of a resource whose definition was deleted.  Its cache is dropped once it is bare."""
        place = resource.group or "core", resource.resource
        cache = self._caches.get(place)
        if cache is not None:
            cache.end_watches(None)
            self._removed.pop(place, None)  # the dictionary stays in order of time
            self._removed[place] = self.seconds()

    def all(self) -> list[Cache]:
        """All caches that have been made."""
        return list(self._caches.values())

    def shared_scope(self, place: tuple[str, str], fields: Fields, namespaced: bool) -> SharedScope:
        """A scope for entries that the caches of several stores in the process share."""
        return SharedScope(self._decoded, self._encoded, fields, namespaced, place)

    def observe(self, observer: Observer) -> None:
        """Adds an observer of all caches."""
        self._observers.add(observer)

    def ignore(self, observer: Observer) -> None:
        """Removes an observer."""
        self._observers.remove(observer)

    def wait_observed(self) -> Deferred[None] | None:
        """Waits until observers have received all changes that are in the caches; None when they have."""
        return self._fan_out.wait_observed()

    def between(self, since: int, until: int) -> list[LoggedEvent]:
        """All changes after ``since``, up to ``until``, oldest first.  Raises Compacted when some have been dropped."""
        if since < self.floor:
            raise Compacted(since, self.floor)
        found = [LoggedEvent(cache, event) for cache in self.all() for event in cache.between(since, until)]
        found.sort(key=lambda logged: logged.event.revision)
        return found

    def wait_for(self, revision: int) -> Deferred[None] | None:
        return self._freshness.wait_for(revision)

    def wait_fresh(self) -> Deferred[None] | None:
        if not self.ready:
            deferred: Deferred[None] = Deferred()
            self._not_ready.append(deferred)
            if not self.store.exclusive:  # the loaded state may be older than this call
                deferred.addCallback(lambda _: self._freshness.ask())
            return deferred
        store = self.store
        return None if store.exclusive or store.is_current(self.revision) else self._freshness.ask()

    def seconds(self) -> float:
        return float(self._reactor.seconds())

    def later(self, function: Callable[[], object], seconds: float = 0.0) -> None:
        self._reactor.callLater(seconds, function)

    # -- starting and stopping

    async def start(self) -> None:
        """Starts the store, which loads all objects.  Raises UnsuitableStore, StoreUnavailable."""
        await self.store.start(self)
        if self._ticks_itself:
            self._ticker.start(1.0)
        waiting, self._not_ready = self._not_ready, []
        for deferred in waiting:
            deferred.callback(None)

    async def stop(self) -> None:
        """Ends all watches and the store."""
        self._ticker.stop()
        self._fan_out.flush(at_once=True)
        for cache in self.all():
            cache.reload.end()
            cache.end_watches(None, at_once=True)
        ending = StoreUnavailable("the server is shutting down")
        waiting, self._not_ready = self._not_ready, []
        for deferred in waiting:
            deferred.errback(ending)
        self._freshness.stop(ending)
        await self.store.stop()

    # -- the store's follower

    def reset(self, objects: Iterable[StoredObject | Value], history: Sequence[Change], revision: int) -> None:
        """Replaces the contents of all caches.  From the second call on all watches end with 410: events may be missing."""
        self._loading = True
        try:
            found, loaded = self._contents(objects, history)
            for contents in found.values():
                contents.finish()
            events = read_history(history, found, loaded, self._located)
            with in_one_piece():
                self._take(found, events, history, revision)
        finally:
            self._loading = False

    def _take(
        self, found: dict[Cache, Contents], events: deque[LoggedEvent], history: Sequence[Change], revision: int
    ) -> None:
        again = self.ready
        if again:
            log.warn("the store's history was lost; all watches begin anew")
            self._fan_out.flush(at_once=True)
        for cache in self.all():
            cache.load(found.get(cache) or Contents())
        self.revision = revision
        self.floor = history[0].revision - 1 if history else revision
        self._log.take((logged.event for logged in events), self.seconds(), revision)
        for cache in self._caches.values():
            cache.reload.end()
        self.ready = True
        self._freshness.advanced()
        if again:
            for cache in self.all():
                cache.end_watches(Compacted(0, self.floor))
            self._observers.loaded(self.all())

    def _contents(
        self, objects: Iterable[StoredObject | Value], history: Sequence[Change]
    ) -> tuple[dict[Cache, Contents], Loaded]:
        found, loaded, self.misplaced = read_objects(objects, self._located)
        for name, count in self.misplaced.items():
            log.warn(
                "{count} {name} are not served: they are in a store that does not keep them", count=count, name=name
            )
        return found, loaded

    def changed(self, changes: Sequence[Change]) -> None:
        """Applies further changes, in order."""
        observers = self._observers or None
        for change in changes:
            cache = None
            try:
                cache, namespace, name = self._locate(change.key)
                if cache.reload.running:
                    cache.reload.missed(change)
                else:
                    event = cache.apply(TYPES[change.kind], cache.entry(namespace, name, change.revision, change.data))
                    if event is not None:
                        self._log.add(event)
                        if event.is_selected:
                            self._fan_out.selected.append(event)
                        if observers is not None and observers.note(cache, event):
                            self._fan_out.noted = True
            except Exception as error:
                self._contain(cache, change, error)
            self.revision = change.revision
        self._fan_out.schedule()
        self._freshness.advanced()

    def _contain(self, cache: Cache | None, change: Change, error: Exception) -> None:
        """Handles a change that could not be applied, so that only its resource is affected."""
        if isinstance(error, KeptElsewhere):
            return  # deleted by the sweeper, or written by a server with other --redis-servers-overrides
        if cache is None:
            self.skipped.add(OBJECTS, change.key.encode(), error)
        elif isinstance(error, Unreadable):  # the cache has excluded the object
            self.revision = change.revision
            cache.forget_history()
        else:
            log.failure("a change of {key} cannot be applied; its resource is loaded again", key=change.key)
            self.revision = change.revision
            cache.start_reload()

    def reload_of(self, cache: Cache) -> Reload:
        """What reloads the cache of one resource after a fault."""
        group, resource = cache.resource.group or "core", cache.resource.resource
        prefix = f"{group}/{resource}/"

        async def reached() -> None:
            waiting = self.wait_for(await self.store.revision())
            if waiting is not None:
                await waiting

        def entry_of(one: StoredObject | Change) -> Entry:
            _, namespace, name = self._locate(one.key)
            return cache.entry(namespace, name, one.revision, one.data)

        def prepared(objects: Iterable[StoredObject]) -> Contents:
            contents = Contents()
            for obj in elements(objects):
                contents.add(entry_of(obj))
            return contents.finish()

        def load(contents: Contents, changes: Sequence[Change]) -> None:
            for change in changes:
                contents.change(entry_of(change), deleted=change.kind == GONE)
            cache.load(contents)
            cache.forget_history()
            self._observers.loaded([cache])

        name = str(cache.resource)
        return Reload(self._reactor, name, self.call, lambda: self.store.scan(prefix), reached, prepared, load)

    def behind(self) -> str:
        """A text that names the watches and observers without the newest changes; "" when all have them."""
        watches = sum(cache.watches_behind for cache in self._caches.values())
        if watches:
            return f"{watches} watches have not been sent everything"
        if any(cache.undecoded for cache in self._caches.values()):
            return "large objects are being decoded for watches within the process"
        return "changes are being delivered" if self._fan_out.busy else ""

    def failing(self) -> str:
        """For a health check: names the resources that are being reloaded after a fault; "" when none is."""
        names = sorted(str(cache.resource) for cache in self._caches.values() if cache.reload.running)
        return f"reloading {', '.join(names)}" if names else ""

    def store_warnings(self) -> str:
        """A text about entries found in the store that cannot be served; "" when there are none."""
        unreadable = sum(len(cache.unreadable) for cache in self._caches.values())
        found = []
        if unreadable:
            found.append(f"{unreadable} objects cannot be read")
        if self.skipped.total:
            found.append(f"{self.skipped.total} entries that kapi did not write were skipped")
        found.extend(f"{count} {name} are in a store that does not keep them" for name, count in self.misplaced.items())
        return ", ".join(found)

    def _located(self, key: str, misplaced: Counter[str] | None = None) -> tuple[Cache, str, str] | None:
        """As ``_locate``; None for a key that kapi did not write, and for one of another store, counted in ``misplaced``."""
        try:
            return self._locate(key)
        except KeptElsewhere as error:
            if misplaced is not None:
                misplaced[str(error.resource)] += 1
            return None
        except ValueError as error:
            self.skipped.add(OBJECTS, key.encode(), error)
            return None

    def _locate(self, key: str) -> tuple[Cache, str, str]:
        """The cache, namespace and name that a key belongs to.  Raises ValueError."""
        group, resource, namespace, name = key.split("/", 3)
        return (
            self._cache_of(group, resource),
            intern(namespace),
            name,
        )  # interned: many objects have the same namespace

    def _cache_of(self, group: str, resource: str) -> Cache:
        cache = self._caches.get((group, resource))
        if cache is None:
            known = GroupResource("" if group == "core" else group, resource)
            if self._keeps is not None and not self._keeps(known):
                raise KeptElsewhere(known)
            cache = self._caches[group, resource] = self._make(known)
        return cache

    def _make(self, resource: GroupResource) -> Cache:
        check = check_of((resource.group or "core", resource.resource))
        return Cache(self, resource, Scope(self._decoded, self._encoded, {}, True, check))

    # -- once a second

    def tick(self) -> None:
        due = self.bookmarks.turn()
        if due:
            self._fan_out.flush()
            made: dict[Source, Batch | None] = {}
            for watch in due:
                if self._fan_out.behind(watch):
                    continue
                if watch.source not in made:
                    made[watch.source] = watch.source.bookmark()
                if (batch := made[watch.source]) is not None:
                    watch.bookmark(batch)
        self._ticks += 1
        if self._ticks % self._trim_every == 0:
            self.trim()

    def trim(self) -> None:
        """Drops the history beyond its limits of age and size, here and in the store; compresses what is left when few write."""
        until, dropped = self._log.trim(self.seconds(), self.revision, self.floor)
        for cache in self._caches.values():
            cache.trim(dropped)
            cache.drop_snapshots()
        if self._removed and not self._loading:  # contents may be on their way to any cache
            self._drop_removed()
        if until > self.floor:
            self.floor = until
            Deferred.fromCoroutine(self._compact(self.floor)).addErrback(
                lambda failure: log.failure("compaction failed", failure)
            )
        old, self._old = self._old, self.revision
        if self._log and not self._packing and self._old - old <= _MAX_CALM_CHANGES:
            self._packing = True
            self.call(self._pack, old).addErrback(
                lambda failure: log.failure("compressing the history failed", failure)
            )

    def _pack(self, until: int) -> None:
        """Compresses the history up to a revision; most slow watches have received these events by then."""
        try:
            for cache in self.all():
                cache.pack(until)
        finally:
            self._packing = False

    def _drop_removed(self) -> None:
        """Drops the bare caches of removed resources: tests may create thousands of definitions, each with another name."""
        until = self.seconds() - _MIN_REMOVED_SECONDS
        for place, since in list(self._removed.items()):
            if since > until:
                return  # the others were removed later
            if self._caches[place].is_bare:
                del self._caches[place], self._removed[place]

    async def _compact(self, revision: int) -> None:
        try:
            await self.store.compact(revision)
        except StoreError as error:
            log.info("compaction postponed: {error}", error=str(error))
