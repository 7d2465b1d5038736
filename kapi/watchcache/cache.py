"""The watch cache of one stored resource (upstream: apiserver ``storage/cacher``)."""

from __future__ import annotations

import builtins
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.machinery.checkpoint import steps
from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate
from kapi.store.errors import Compacted
from kapi.watchcache.backlog import BATCH_SEEN, initial, past
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import Entry, Fields, Object, Scope
from kapi.watchcache.event import ADDED, BOOKMARK, DELETED, Batch, CacheEvent, WatchEvent
from kapi.watchcache.selection import Group, GroupIndex, Selection, matcher
from kapi.watchcache.unreadable import Unreadable, problem_of
from kapi.watchcache.watch import OnBatch, OnEnd, Watch

if TYPE_CHECKING:
    from kapi.watchcache.caches import Caches

log = Logger()

__all__ = ["Batch", "Cache", "Entry", "Watch", "WatchEvent"]

Entries = list[Entry]  # under names of their own: inside the class, list is a method
CacheEvents = list[CacheEvent]
_key = attrgetter("key")
_revision = attrgetter("revision")
_SNAPSHOTS = 8  # former states kept for the pages of lists that are being read
_MAX_NAMED = 100  # unreadable objects at a time that the log names


class Cache:
    """One resource.  Handed out by ``Caches.cache``."""

    #: events that may wait for a slow client before it is cut off
    longest_queue = 10_000
    #: bytes of objects that may; they are kept for it when the history has let them go
    largest_queue = 64_000_000

    def __init__(self, caches: Caches, resource: GroupResource, scope: Scope) -> None:
        self.resource = resource
        self._caches = caches
        self._scope = scope
        self._by_key: dict[str, Entry] = {}
        self._sorted: Entries = []
        self._lent = False  # somebody may hold the sorted list: copy before changing it
        self._ring: deque[CacheEvent] = deque()
        self._complete_after = 0  # what came before lacks previous states
        self._snapshots: dict[int, Entries] = {}
        self._groups = GroupIndex()
        self._floor = 0  # history up to and including this revision is gone, of this resource alone
        scope.set_aside = self._set_aside
        #: what is stored and cannot be read, by key
        self.unreadable: dict[str, Unreadable] = {}
        self.reload = caches.reload_of(self)
        self.size = 0  # bytes of all objects
        self.initializations = 0
        self.received = 0  # changes so far
        self.dispatched = 0  # changes that some watcher was told of
        self.terminated = 0  # watches cut off because they were slow

    @property
    def revision(self) -> int:
        """The newest revision this process has seen in the store, whatever resource it was of."""
        return self._caches.revision

    @property
    def watches(self) -> int:
        """How many run now."""
        return len(self._groups)

    @property
    def history(self) -> int:
        """How many changes watches and lists can go back."""
        return len(self._ring)

    def __len__(self) -> int:
        return len(self._by_key)

    def wait_for(self, revision: int) -> Deferred[None] | None:
        """None when already there.  Errs with the API's Timeout (too large resource version) after 3 s."""
        if self.reload.running:
            return Deferred.fromCoroutine(self._loaded_and(lambda: self._caches.wait_for(revision)))
        return self._caches.wait_for(revision)

    def wait_loaded(self) -> Deferred[None] | None:
        """None unless the cache is just being loaded again.  Errs with TooManyRequests after 3 s."""
        return self.reload.wait() if self.reload.running else None

    def wait_fresh(self) -> Deferred[None] | None:
        """The linearizable read point: whatever was acknowledged before the call is in the cache afterwards."""
        if self.reload.running:
            return Deferred.fromCoroutine(self._loaded_and(self._caches.wait_fresh))
        return self._caches.wait_fresh()

    async def _loaded_and(self, wait: Callable[[], Deferred[None] | None]) -> None:
        """What was loaded again may be older than what is waited for."""
        await self.reload.wait()
        waiting = wait()
        if waiting is not None:
            await waiting

    # -- reading

    def get(self, namespace: str, name: str) -> Entry | None:
        """Raises Unreadable for an object that is there but cannot be decoded."""
        key = f"{namespace}/{name}" if namespace else name
        entry = self._by_key.get(key)
        if entry is None and self.unreadable and key in self.unreadable:
            raise self.unreadable[key].again()
        return entry

    def objects(self, namespace: str = "") -> builtins.list[Object]:
        """All objects, decoded; what turns out to be unreadable is gone around."""
        if not self._sorted:
            return []  # as of most resources that each request asks for: webhooks, policies, quotas
        while True:
            try:
                return [entry.object for entry in self.list(namespace)[0]]
            except Unreadable:
                continue  # it is set aside now

    def unreadable_in(self, namespace: str = "") -> builtins.list[str]:
        """The keys of what a list goes around."""
        start = f"{namespace}/" if namespace else ""
        return sorted(key for key in self.unreadable if key.startswith(start))

    def list(self, namespace: str = "", predicate: Predicate | None = None) -> tuple[Entries, int]:
        """Sorted by key, consistent at the returned revision.  The list is shared: never change it."""
        if predicate is not None:
            name = predicate.fields.exact("metadata.name")
            if name is not None and (namespace or not self._scope.namespaced):
                entry = self._by_key.get(f"{namespace}/{name}" if namespace else name)
                found = [entry] if entry is not None else []
                return _selected(found, "", predicate), self._caches.revision
        while True:
            try:
                revision = self._caches.revision  # before the selection, in which others may write
                return _selected(self._borrow(), namespace, predicate), revision
            except Unreadable:
                continue  # it is set aside now

    def list_at(self, revision: int, namespace: str = "", predicate: Predicate | None = None) -> Entries:
        """The list as it was at ``revision`` (await ``wait_for`` first).  Raises Compacted."""
        return _selected(self._state_at(revision), namespace, predicate)

    def _borrow(self) -> Entries:
        self._lent = True
        return self._sorted

    def _state_at(self, revision: int) -> Entries:
        ring = self._ring
        if revision < self._caches.floor or revision < self._floor:
            raise Compacted(revision, max(self._caches.floor, self._floor) + 1)
        if not ring or ring[-1].revision <= revision:
            return self._borrow()
        if revision < self._complete_after:
            raise Compacted(revision, self._complete_after + 1)
        snapshot = self._snapshots.get(revision)
        if snapshot is None:
            if len(self._snapshots) >= _SNAPSHOTS:
                del self._snapshots[next(iter(self._snapshots))]
            snapshot = self._snapshots[revision] = self._undo(revision)
        return snapshot

    def _undo(self, revision: int) -> Entries:
        """The state before all events after a revision."""
        former: dict[str, Entry | None] = {}
        for event in reversed(self._ring):
            if event.revision <= revision:
                break
            former[event.entry.key] = event.previous
        state = [entry for entry in self._sorted if entry.key not in former]
        state.extend(entry for entry in former.values() if entry is not None)
        state.sort(key=_key)
        return state

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
    ) -> Watch:
        """Starts a watch.

        ``since`` None starts now, else after that revision.  ``initial_events`` begins with an ADDED for each object
        there is (``since`` is then ignored: await ``wait_for`` or ``wait_fresh`` first); ``initial_end`` follows them
        with the annotated bookmark.  ``bookmarks`` sends one about every minute, and one 2 s before the client's
        ``timeout`` (seconds). Raises Compacted.

        ``on_end(error)`` is called once when the cache ends the watch: None when the watcher was too slow or the
        server stops, Compacted when the store lost its history (answer 410).
        """
        if predicate is not None and predicate.empty:
            predicate = None
        selection = Selection.of(namespace, name, predicate)
        now = self._caches.revision
        backlog: Iterator[Batch] | None = None
        after = now
        if since is not None and not initial_events:
            self._check_history(since, selection)
            after = max(since, now)
        group = self._groups.group(selection, predicate)
        if initial_events:
            backlog = initial(_within(self._borrow(), namespace), group, matcher(predicate), now, initial_end)
        elif since is not None and self._ring and self._ring[-1].revision > since:
            backlog = past(partial(self._after, until=now), since, group)
        deadline = self._caches.seconds() + timeout if timeout else 0.0
        watch = Watch(self, group, on_batch, on_end, after, backlog, bookmarks, deadline)
        group.watches[watch] = None
        if bookmarks:
            self._caches.bookmarks.add(watch)
        return watch

    def _check_history(self, since: int, selection: Selection) -> None:
        oldest = max(self._caches.floor, self._floor)
        if not selection.by_key_only:
            oldest = max(oldest, self._complete_after)
        if since < oldest:
            raise Compacted(since, oldest + 1)

    def _after(self, since: int, until: int) -> CacheEvents:
        """The next events of the history.  Raises Compacted when some of them are gone."""
        if since < self._floor:
            raise Compacted(since, self._floor + 1)
        ring = self._ring
        start = bisect_right(ring, since, key=_revision)
        end = min(start + BATCH_SEEN, bisect_right(ring, until, key=_revision))
        if start < len(ring) - end:
            return list(islice(ring, start, end))
        found = list(islice(reversed(ring), len(ring) - end, len(ring) - start))  # from the nearer end
        found.reverse()
        return found

    def forget(self, watch: Watch, group: Group) -> None:
        """A watch has ended."""
        group.watches.pop(watch, None)
        if not group.watches:
            self._groups.drop(group)
        if watch.bookmarks:
            self._caches.bookmarks.discard(watch)

    def end_watches(self, error: Exception | None) -> None:
        for watch in self._groups.all():
            watch.end(error)

    def count_terminated(self) -> None:
        self.terminated += 1

    def later(self, function: Callable[[], Any]) -> None:
        self._caches.later(function)

    def bookmark(self, revision: int) -> Batch:
        """One for all watches of this resource."""
        return Batch([WatchEvent(BOOKMARK, revision, None)])

    # -- the feed

    def entry(self, namespace: str, name: str, revision: int, data: bytes) -> Entry:
        return Entry(self._scope, f"{namespace}/{name}" if namespace else name, namespace, name, revision, data)

    def load(self, contents: Contents) -> None:
        """Replaces everything."""
        contents.finish()
        self.unreadable = {}
        self.initializations += 1
        for entry, problem in contents.problems.values():
            self._note_unreadable(entry, problem)
        self._by_key, self._sorted, self.size = contents.by_key, contents.sorted, contents.size
        self._lent = False
        self._ring = contents.ring
        self._snapshots.clear()
        self._complete_after = contents.complete_after
        self._floor = contents.floor

    def forget_history(self) -> None:
        """After a fault of this resource alone: who watches, or asks for the past, begins anew."""
        self._ring.clear()
        self._snapshots.clear()
        self._floor = self._caches.revision
        self.end_watches(Compacted(0, self._floor + 1))

    def _note_unreadable(self, entry: Entry, problem: str) -> Unreadable:
        name = self.resource.resource if not self.resource.group else f"{self.resource.group}/{self.resource.resource}"
        error = self.unreadable[entry.key] = Unreadable(name, entry.key, entry.revision, problem)
        if len(self.unreadable) <= _MAX_NAMED:
            log.error("an object cannot be read: {resource} {key}: {why}", resource=name, key=entry.key, why=problem)
        return error

    def _set_aside(self, entry: Entry, problem: str) -> Unreadable:
        """Somebody looked into an object that cannot be decoded: it leaves the lists."""
        error = self._note_unreadable(entry, problem)
        if self._by_key.get(entry.key) is not entry:  # a former state: what is there now may well be readable
            del self.unreadable[entry.key]
            return error.former()
        del self._by_key[entry.key]
        if self._lent:
            self._sorted = self._sorted.copy()
            self._lent = False
        del self._sorted[bisect_left(self._sorted, entry.key, key=_key)]
        self.size -= len(entry.data)
        self._caches.later(self.forget_history)  # not at once: its watchers may be told of something just now
        return error

    def begin_anew(self) -> None:
        """After a fault: everything is read from the store again."""
        self.reload.begin()
        self.forget_history()

    def apply(self, kind: str, entry: Entry) -> CacheEvent | None:
        """A change; answers the event, None when nobody who reads can see one.  Groups that select it become dirty."""
        self.received += 1
        problem = problem_of(entry.data, entry.revision, entry.name)
        if problem or self.unreadable:
            replaced = self._apply_unreadable(kind, entry, problem)
            if replaced is None:
                return None
            kind, entry = replaced
        previous = self._by_key.get(entry.key)
        if self._lent:
            self._sorted = self._sorted.copy()
            self._lent = False
        if previous is not None:
            self.size -= len(previous.data)
        if kind == DELETED:
            if previous is not None:
                del self._by_key[entry.key]
                del self._sorted[bisect_left(self._sorted, entry.key, key=_key)]
        else:
            self._by_key[entry.key] = entry
            self.size += len(entry.data)
            position = bisect_left(self._sorted, entry.key, key=_key)
            if previous is not None:
                self._sorted[position] = entry
            else:
                self._sorted.insert(position, entry)
        event = CacheEvent(entry.revision, kind, entry, previous)
        self._ring.append(event)
        for group in self._groups.concerned(event):
            told = group.select(event)
            if told is not None:
                if not group.pending:
                    self._caches.dirty.append(group)
                group.pending.append(told)
        if event.is_told:
            self.dispatched += 1
        return event

    def _apply_unreadable(self, kind: str, entry: Entry, problem: str) -> tuple[str, Entry] | None:
        """What readers see of a change from or to what cannot be read: it comes, or it goes."""
        was = self.unreadable.pop(entry.key, None)
        if not problem:
            if was is None:
                return kind, entry
            return None if kind == DELETED else (ADDED, entry)
        if kind != DELETED:
            self._note_unreadable(entry, problem)
        previous = self._by_key.get(entry.key)
        return None if previous is None else (DELETED, previous.at(entry.revision))

    def trim(self, event: CacheEvent) -> None:
        """The history loses its oldest event, unless a fault has taken it before."""
        if self._ring and self._ring[0] is event:
            self._ring.popleft()
            self._floor = max(self._floor, event.revision)

    def drop_snapshots(self) -> None:
        """Former states that nobody reads any more."""
        self._snapshots.clear()

    def set_fields(self, fields: Fields, namespaced: bool) -> None:
        self._scope.fields = fields
        self._scope.namespaced = namespaced
        for entry in self._by_key.values():
            entry.forget_fields()


def _selected(entries: list[Entry], namespace: str, predicate: Predicate | None) -> list[Entry]:
    entries = _within(entries, namespace)
    matches = matcher(predicate)
    return entries if matches is None else [entry for entry in steps(entries) if matches(entry)]


def _within(entries: list[Entry], namespace: str) -> list[Entry]:
    if not namespace:
        return entries
    start = bisect_left(entries, namespace + "/", key=_key)
    end = bisect_left(entries, namespace + "0", lo=start, key=_key)  # "0" comes after "/"
    return entries[start:end]
