"""The watch cache of one stored resource (upstream: apiserver ``storage/cacher``)."""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.machinery.checkpoint import steps
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate
from kapi.machinery.tree import Object
from kapi.process.driver import Call
from kapi.request.pending import Pending
from kapi.store.errors import Compacted
from kapi.watchcache.backlog import Initial, past
from kapi.watchcache.contents import Contents
from kapi.watchcache.counts import Reads, Sent
from kapi.watchcache.entry import Entry, Fields, Scope
from kapi.watchcache.event import ADDED, BOOKMARK, DELETED, Batch, CacheEvent, WatchEvent
from kapi.watchcache.history import History
from kapi.watchcache.pages import ListPart, read, read_one
from kapi.watchcache.reload import Reload
from kapi.watchcache.selection import Group, GroupIndex, Selection, matcher
from kapi.watchcache.sorted_entries import Range, SortedEntries
from kapi.watchcache.turns import Turns
from kapi.watchcache.unreadable import Unreadable, problem_of
from kapi.watchcache.watch import BookmarkWheel, OnBatch, OnEnd, Watch

log = Logger()

__all__ = ["Batch", "Cache", "Entry", "Watch", "WatchEvent"]

Entries = list[Entry]  # an alias: inside the class, ``list`` is a method
_MAX_ENDS_PER_TURN = 50  # watches ended in one turn of the reactor
_LABELS_PER_CHECKPOINT = 500
_DECODED_AT_ONCE = 128  # objects decoded without a checkpoint
_MAX_NAMED = 100  # unreadable objects that are logged by name


class Feed(Protocol):
    """What a cache needs of ``Caches``, which reads the store for all caches."""

    revision: int
    floor: int
    dirty: builtins.list[Group]
    bookmarks: BookmarkWheel
    pending: Pending | None
    call: Call
    turns: Turns

    def wait_for(self, revision: int) -> Deferred[None] | None: ...

    def wait_fresh(self) -> Deferred[None] | None: ...

    def seconds(self) -> float: ...

    def later(self, function: Callable[[], object], seconds: float = 0.0) -> None: ...

    def reload_of(self, cache: Cache) -> Reload: ...


class Cache:
    """The watch cache of one resource.  Get it from ``Caches.cache``."""

    #: events that may wait for a slow client before its watch is ended
    max_queued_events = 10_000
    #: bytes of objects that may wait; the queue keeps them in memory even after the history has dropped them
    max_queued_bytes = 64_000_000

    def __init__(self, feed: Feed, resource: GroupResource, scope: Scope) -> None:
        self.resource = resource
        self._feed = feed
        self._scope = scope
        self._entries = SortedEntries({}, (), 0)
        self._history = History(deque(), 0, 0)
        self._groups = GroupIndex()
        scope.holders.add(self)
        #: stored objects that cannot be decoded, by key
        self.unreadable: dict[str, Unreadable] = {}
        self.reload = feed.reload_of(self)
        # counters of the metrics
        self.initializations = 0
        self.loaded = 0  # objects read from the store when the cache was loaded
        self.reads = Reads()
        self.sent: dict[str, Sent] = {}  # by API version
        self.received = 0  # changes received from the store
        self.changes = 0  # grows with every change of the contents, also by loading and by excluding unreadable objects
        self.dispatched = 0  # changes that at least one watch selected
        self.terminated = 0  # watches ended because their clients were slow
        self.undecoded = 0  # events whose large objects are still being decoded for watches within the process

    @property
    def call(self) -> Call:
        """Runs long computations in slices."""
        return self._feed.call

    @property
    def turns(self) -> Turns:
        """The turns of all watches of all caches that send waiting events."""
        return self._feed.turns

    @property
    def pending(self) -> Pending | None:
        """Counts the bytes that wait for slow clients, of all caches."""
        return self._feed.pending

    @property
    def revision(self) -> int:
        """The newest revision of the store, of any resource, that this process has seen."""
        return self._feed.revision

    @property
    def watches(self) -> int:
        """The number of running watches."""
        return len(self._groups)

    @property
    def watches_behind(self) -> int:
        """The number of watches that have not received all changes yet."""
        return sum(1 for watch in self._groups.all() if watch.behind)

    @property
    def history(self) -> int:
        """The number of changes in the history."""
        return len(self._history)

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return self._entries.size

    @property
    def is_bare(self) -> bool:
        """Whether the cache can be dropped: it has no objects, no watches, and no history that a client may request."""
        used = self._entries.by_key or self.unreadable or len(self._groups) or self.reload.running
        return not used and self._history.is_gone(self._feed.floor)

    def __len__(self) -> int:
        return len(self._entries.by_key)

    def seconds(self) -> float:
        """The reactor's clock."""
        return self._feed.seconds()

    def sent_as(self, version: str) -> Sent:
        """The counters of the events that watches of an API version were sent."""
        return self.sent.setdefault(version, Sent())

    def wait_for(self, revision: int) -> Deferred[None] | None:
        """Waits until the cache has seen a revision; None when it has.

        Errs with the API's Timeout (too large resource version) after 3 s.
        """
        if self.reload.running:
            return Deferred.fromCoroutine(self._loaded_and(lambda: self._feed.wait_for(revision)))
        return self._feed.wait_for(revision)

    def wait_loaded(self) -> Deferred[None] | None:
        """Waits while the cache is being reloaded; None when it is not.  Errs with TooManyRequests after 3 s."""
        return self.reload.wait() if self.reload.running else None

    def wait_fresh(self) -> Deferred[None] | None:
        """Waits until every write acknowledged before this call is in the cache (a linearizable read); None when it is."""
        if self.reload.running:
            return Deferred.fromCoroutine(self._loaded_and(self._feed.wait_fresh))
        return self._feed.wait_fresh()

    async def _loaded_and(self, wait: Callable[[], Deferred[None] | None]) -> None:
        """Waits for the reload and then for the revision: the reloaded state may still be older than that."""
        await self.reload.wait()
        waiting = wait()
        if waiting is not None:
            await waiting

    # -- reading

    def get(self, namespace: str, name: str) -> Entry | None:
        """The object's entry, None when there is none.  Raises Unreadable for an object that cannot be decoded."""
        key = f"{namespace}/{name}" if namespace else name
        entry = self._entries.by_key.get(key)
        if entry is None and self.unreadable and key in self.unreadable:
            raise self.unreadable[key].again()
        return entry

    def objects(self, namespace: str = "", labels: Mapping[str, str] | None = None) -> builtins.list[Object]:
        """All objects of a namespace ("" for all), decoded; with ``labels`` those that have all of these.

        Unreadable ones are left out.
        """
        if not self._entries.by_key:
            return []  # the common case for webhooks, policies and quotas, which every request reads
        while True:
            try:
                found: Sequence[Entry] = self.list(namespace)[0]
                if labels:
                    wanted = labels.items()
                    found = [entry for entry in steps(found, _LABELS_PER_CHECKPOINT) if wanted <= entry.labels.items()]
                return [entry.object for entry in (found if len(found) <= _DECODED_AT_ONCE else elements(found))]
            except Unreadable:
                continue  # the cache has now excluded it

    def unreadable_in(self, namespace: str = "") -> builtins.list[str]:
        """The keys of the unreadable objects that a list leaves out."""
        start = f"{namespace}/" if namespace else ""
        return sorted(key for key in self.unreadable if key.startswith(start))

    def list(self, namespace: str = "", predicate: Predicate | None = None) -> tuple[Entries, int]:
        """Sorted by key, consistent at the returned revision.  The list is shared: never change it."""
        part, revision = self.page(namespace, predicate)
        return part.entries, revision

    def page(
        self, namespace: str = "", predicate: Predicate | None = None, start: str = "", limit: int = 0
    ) -> tuple[ListPart, int]:
        """At most ``limit`` entries (0: all) in order of their keys, and the revision at which they were read.

        ``start`` is the first name, or with all namespaces the first ``namespace/name``.
        """
        place = Range.of(namespace, start)
        if predicate is not None:
            name = predicate.fields.exact("metadata.name")
            if name is not None and (namespace or not self._scope.namespaced):
                entry = self._entries.by_key.get(f"{namespace}/{name}" if namespace else name)
                return read_one(entry, place, predicate), self._feed.revision
        while True:
            try:
                revision = self._feed.revision  # before the selection, since other requests may write meanwhile
                return read(self._entries, place, predicate, limit), revision
            except Unreadable:
                continue  # the cache has now excluded it

    def list_at(self, revision: int, namespace: str = "", predicate: Predicate | None = None) -> Entries:
        """The list as it was at ``revision`` (await ``wait_for`` first).  Raises Compacted."""
        return self.page_at(revision, namespace, predicate).entries

    def page_at(
        self, revision: int, namespace: str = "", predicate: Predicate | None = None, start: str = "", limit: int = 0
    ) -> ListPart:
        """As ``page``, with the objects as they were at ``revision`` (await ``wait_for`` first).  Raises Compacted."""
        history = self._history
        history.check(revision, self._feed.floor, with_previous=False)
        former = None if history.newest <= revision else history.former(revision)
        if history is not self._history:  # loaded anew meanwhile: the history does not belong to these entries
            raise Compacted(revision, self._feed.floor)
        return read(self._entries, Range.of(namespace, start), predicate, limit, former)

    def events(self, since: int, until: int) -> Iterator[CacheEvent]:
        """The changes after ``since`` up to ``until``, oldest first.  Raises Compacted, also during the iteration."""
        history = self._history
        history.check(since, self._feed.floor, with_previous=False)
        while found := history.after(since, until):
            yield from found
            since = found[-1].revision
            if history is not self._history:  # loaded anew meanwhile
                raise Compacted(since, self._feed.floor)

    # -- watching

    def watch(
        self,
        since: int | None,
        on_batch: OnBatch,
        on_end: OnEnd,
        *,
        namespace: str = "",
        name: str = "",
        predicate: Predicate | None = None,
        initial_events: bool = False,
        initial_end: bool = False,
        bookmarks: bool = False,
        timeout: float = 0.0,
        on_listed: Callable[[], None] | None = None,
    ) -> Watch:
        """Starts a watch.

        ``since`` is the revision to start after, None for now.  ``initial_events`` sends an ADDED event for each present object
        first and ignores ``since``; await ``wait_for`` or ``wait_fresh`` before.  ``initial_end`` sends the annotated bookmark
        after them; ``on_listed`` is called just before it.  ``bookmarks`` sends one about every minute, and one 2 s before the
        client's ``timeout`` (seconds).  Raises Compacted.

        ``on_end(error)`` is called once when the cache ends the watch: None when the watcher was too slow or the
        server stops, Compacted when the store lost its history (answer 410).
        """
        if predicate is not None and predicate.empty:
            predicate = None
        selection = Selection.of(namespace, name, predicate)
        now = self._feed.revision
        backlog: Iterator[Batch] | None = None
        after = now
        if since is not None and not initial_events:
            self._history.check(since, self._feed.floor, with_previous=not selection.by_key_only)
            after = max(since, now)
        group = self._groups.group(selection, predicate)
        if initial_events:
            again = partial(self.list_at, now, namespace)
            backlog = Initial(again, group, matcher(predicate), now, initial_end, on_listed)
        elif since is not None and self._history.newest > since:
            backlog = past(partial(self._after, until=now), since, group)
        deadline = self._feed.seconds() + timeout if timeout else 0.0
        watch = Watch(self, group, on_batch, on_end, after, backlog, bookmarks, deadline)
        group.watches[watch] = None
        if bookmarks:
            self._feed.bookmarks.add(watch)
        return watch

    def _after(self, since: int, until: int) -> builtins.list[CacheEvent]:
        return self._history.after(since, until)  # looked up at each call: ``load`` replaces the history

    @property
    def sharded_watches(self) -> int:
        """The running watches of shards."""
        return self._groups.sharded

    @property
    def filtered_events(self) -> int:
        """The number of events that watches of shards did not get, because their objects are in other shards."""
        return self._groups.filtered

    def forget(self, watch: Watch, group: Group) -> None:
        """Removes a watch that has ended."""
        group.watches.pop(watch, None)
        if not group.watches:
            self._groups.drop(group)
        if watch.bookmarks:
            self._feed.bookmarks.discard(watch)

    def end_watches(self, error: Exception | None, *, at_once: bool = False) -> None:
        """Stops all deliveries, then ends the watches: a few in each turn of the reactor, or all now (``at_once``)."""
        ended = deque(watch for watch in self._groups.all() if watch.detach())

        def end_some() -> None:
            for _ in range(len(ended) if at_once else min(len(ended), _MAX_ENDS_PER_TURN)):
                ended.popleft().send_end(error)
            if ended:
                self.later(end_some)

        end_some()

    def count_terminated(self) -> None:
        self.terminated += 1

    def later(self, function: Callable[[], object], seconds: float = 0.0) -> None:
        self._feed.later(function, seconds)

    def between(self, since: int, until: int) -> Iterator[CacheEvent]:
        """The changes after ``since``, up to ``until``.  Raises Compacted when some of them are gone."""
        return self._history.all_after(since, until)

    def bookmark(self) -> Batch | None:
        """A bookmark at the present revision for all watches of this resource; None while the cache is being reloaded."""
        return None if self.reload.running else Batch([WatchEvent(BOOKMARK, self._feed.revision, None)])

    # -- the feed

    def entry(self, namespace: str, name: str, revision: int, data: bytes) -> Entry:
        return Entry(self._scope, f"{namespace}/{name}" if namespace else name, namespace, name, revision, data)

    def load(self, contents: Contents) -> None:
        """Replaces all objects and the history."""
        self.changes += 1
        self.unreadable = {}
        self.initializations += 1
        self.loaded += len(contents.by_key) + len(contents.problems)
        for entry, problem in contents.problems.values():
            self._note_unreadable(entry, problem)
        self._entries.free()
        self._entries = contents.entries
        self._history.free()
        self._history = History(contents.ring, contents.complete_after, contents.floor)

    def forget_history(self) -> None:
        """Drops the history after a fault: watches end and reads of older revisions fail with 410, so that clients relist."""
        self._history.clear(self._feed.revision)
        self.end_watches(Compacted(0, self._feed.revision))

    def _note_unreadable(self, entry: Entry, problem: str) -> Unreadable:
        error = self.unreadable[entry.key] = Unreadable.of(self.resource, entry.key, entry.revision, problem)
        if len(self.unreadable) <= _MAX_NAMED:
            log.error(
                "an object cannot be read: {resource} {key}: {why}", resource=error.resource, key=entry.key, why=problem
            )
        return error

    def set_aside(self, entry: Entry, problem: str) -> Unreadable:
        """Excludes an object from lists, after an attempt to decode it has failed.  Returns the error to raise."""
        if self._entries.by_key.get(entry.key) is not entry:  # the present state of the object may well be readable
            return Unreadable.of(self.resource, entry.key, entry.revision, problem).former()
        error = self._note_unreadable(entry, problem)
        self._entries.remove(entry.key)
        self.changes += 1
        self._feed.later(self.forget_history)  # later: an event may be on its way to the watches now
        return error

    def start_reload(self) -> None:
        """After a fault: reads all objects of the resource from the store again."""
        self.reload.begin()
        self.forget_history()

    def apply(self, kind: str, entry: Entry) -> CacheEvent | None:
        """Applies a change and queues it for the groups of watches that select it.

        Returns the event, None when readers see no change: only unreadable states of the object are concerned.
        """
        self.received += 1
        self.changes += 1
        problem = problem_of(entry.data, entry.revision, entry.name)
        if problem or self.unreadable:
            replaced = self._apply_unreadable(kind, entry, problem)
            if replaced is None:
                return None
            kind, entry = replaced
        entries = self._entries
        previous = entries.remove(entry.key) if kind == DELETED else entries.put(entry)
        event = CacheEvent(entry.revision, kind, entry, previous)
        self._history.events.append(event)
        for group in self._groups.groups_for(event):
            watch_event = group.select(event)
            if watch_event is not None:
                if not group.pending:
                    self._feed.dirty.append(group)
                group.pending.append(watch_event)
        if event.is_selected:
            self.dispatched += 1
        return event

    def _apply_unreadable(self, kind: str, entry: Entry, problem: str) -> tuple[str, Entry] | None:
        """The change that readers see when the old or the new state is unreadable; None for no change.

        An object that becomes unreadable is DELETED for them, one that becomes readable again is ADDED.
        """
        was = self.unreadable.pop(entry.key, None)
        if not problem:
            if was is None:
                return kind, entry
            return None if kind == DELETED else (ADDED, entry)
        if kind != DELETED:
            self._note_unreadable(entry, problem)
        previous = self._entries.by_key.get(entry.key)
        return None if previous is None else (DELETED, previous.at(entry.revision))

    def trim(self, until: int) -> None:
        """Drops the events of the history up to a revision."""
        self._history.trim(until)

    def pack(self, until: int) -> None:
        """Compresses the events of the history up to a revision, in steps."""
        self._history.pack(until)

    def drop_snapshots(self) -> None:
        """Drops former states that no read needs any more."""
        self._history.drop_states()

    def set_fields(self, fields: Fields | None, namespaced: bool | None) -> None:
        """Replaces the selectable fields and whether the resource is namespaced; None changes nothing.

        Raises ValueError for a change of a scope that several stores share.  Values that were read from objects are kept when
        the names of the fields stay the same: a field of one name is always read in the same way.
        """
        scope = self._scope
        before = scope.namespaced, scope.fields.keys()
        if scope.change(fields, namespaced) and (scope.namespaced, scope.fields.keys()) != before:
            for entry in elements(list(self._entries.by_key.values())):
                entry.forget_fields()
