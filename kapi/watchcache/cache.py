"""The watch cache of one stored resource (upstream: apiserver ``storage/cacher``)."""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.machinery.checkpoint import steps
from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate
from kapi.machinery.tree import Object
from kapi.request.call import Call
from kapi.request.pending import Pending
from kapi.store.errors import Compacted
from kapi.watchcache.backlog import Initial, past
from kapi.watchcache.bookmarks import BookmarkWheel
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import Entry, Fields, Scope
from kapi.watchcache.event import ADDED, BOOKMARK, DELETED, Batch, CacheEvent, WatchEvent
from kapi.watchcache.history import History
from kapi.watchcache.pages import Stretch, read, read_one
from kapi.watchcache.reads import Reads
from kapi.watchcache.reload import Reload
from kapi.watchcache.selection import Group, GroupIndex, Selection, matcher
from kapi.watchcache.sent import Sent
from kapi.watchcache.sorted_entries import Range, SortedEntries
from kapi.watchcache.unreadable import Unreadable, problem_of
from kapi.watchcache.watch import OnBatch, OnEnd, Watch

log = Logger()

__all__ = ["Batch", "Cache", "Entry", "Watch", "WatchEvent"]

Entries = list[Entry]  # under names of their own: inside the class, list is a method
_MAX_ENDS = 50  # watches that are ended in one turn
_AT_ONCE = 128  # objects that are decoded in one piece
_MAX_NAMED = 100  # unreadable objects at a time that the log names


class Feed(Protocol):
    """The one reader of the store that feeds all caches (``Caches``), as a cache knows it."""

    revision: int
    floor: int
    dirty: builtins.list[Group]
    bookmarks: BookmarkWheel
    pending: Pending | None
    call: Call

    def wait_for(self, revision: int) -> Deferred[None] | None: ...

    def wait_fresh(self) -> Deferred[None] | None: ...

    def seconds(self) -> float: ...

    def later(self, function: Callable[[], object]) -> None: ...

    def reload_of(self, cache: Cache) -> Reload: ...


class Cache:
    """One resource.  Handed out by ``Caches.cache``."""

    #: events that may wait for a slow client before it is cut off
    longest_queue = 10_000
    #: bytes of objects that may; they are kept for it when the history has let them go
    largest_queue = 64_000_000

    def __init__(self, feed: Feed, resource: GroupResource, scope: Scope) -> None:
        self.resource = resource
        self._feed = feed
        self._scope = scope
        self._entries = SortedEntries({}, (), 0)
        self._history = History(deque(), 0, 0)
        self._groups = GroupIndex()
        scope.holders.add(self)
        #: what is stored and cannot be read, by key
        self.unreadable: dict[str, Unreadable] = {}
        self.reload = feed.reload_of(self)
        self.initializations = 0
        self.loaded = 0  # objects that were read from the store to begin with
        self.reads = Reads()  # by clients
        self.sent: dict[str, Sent] = {}  # to watches, by the version they are of
        self.received = 0  # changes so far
        self.changes = 0  # of what there is to read, whatever they came from
        self.dispatched = 0  # changes that some watcher got
        self.terminated = 0  # watches cut off because they were slow
        self.undecoded = 0  # events that wait inside the process until they are handled in slices

    @property
    def call(self) -> Call:
        """Runs what takes long."""
        return self._feed.call

    @property
    def pending(self) -> Pending | None:
        """What waits for clients counts there."""
        return self._feed.pending

    @property
    def revision(self) -> int:
        """The newest revision this process has seen in the store, whatever resource it was of."""
        return self._feed.revision

    @property
    def watches(self) -> int:
        """How many run now."""
        return len(self._groups)

    @property
    def watches_behind(self) -> int:
        """How many of them have not got all changes yet."""
        return sum(1 for watch in self._groups.all() if watch.behind)

    @property
    def history(self) -> int:
        """How many changes watches and lists can go back."""
        return len(self._history)

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return self._entries.size

    @property
    def is_bare(self) -> bool:
        """A new cache would know as much: there are no objects, no history that may still be asked for, and no watches."""
        used = self._entries.by_key or self.unreadable or len(self._groups) or self.reload.running
        return not used and self._history.is_gone(self._feed.floor)

    def __len__(self) -> int:
        return len(self._entries.by_key)

    def seconds(self) -> float:
        """The clock that waiting is measured by."""
        return self._feed.seconds()

    def sent_as(self, version: str) -> Sent:
        """What watches of a version were sent, to be added to."""
        return self.sent.setdefault(version, Sent())

    def wait_for(self, revision: int) -> Deferred[None] | None:
        """None when already there.  Errs with the API's Timeout (too large resource version) after 3 s."""
        if self.reload.running:
            return Deferred.fromCoroutine(self._loaded_and(lambda: self._feed.wait_for(revision)))
        return self._feed.wait_for(revision)

    def wait_loaded(self) -> Deferred[None] | None:
        """None unless the cache is just being loaded again.  Errs with TooManyRequests after 3 s."""
        return self.reload.wait() if self.reload.running else None

    def wait_fresh(self) -> Deferred[None] | None:
        """The linearizable read point: whatever was acknowledged before the call is in the cache afterwards."""
        if self.reload.running:
            return Deferred.fromCoroutine(self._loaded_and(self._feed.wait_fresh))
        return self._feed.wait_fresh()

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
        entry = self._entries.by_key.get(key)
        if entry is None and self.unreadable and key in self.unreadable:
            raise self.unreadable[key].again()
        return entry

    def objects(self, namespace: str = "") -> builtins.list[Object]:
        """All objects, decoded; what turns out to be unreadable is gone around."""
        if not self._entries.by_key:
            return []  # as of most resources that each request asks for: webhooks, policies, quotas
        while True:
            try:
                found = self.list(namespace)[0]
                return [entry.object for entry in (found if len(found) <= _AT_ONCE else steps(found))]
            except Unreadable:
                continue  # it is set aside now

    def unreadable_in(self, namespace: str = "") -> builtins.list[str]:
        """The keys of what a list goes around."""
        start = f"{namespace}/" if namespace else ""
        return sorted(key for key in self.unreadable if key.startswith(start))

    def list(self, namespace: str = "", predicate: Predicate | None = None) -> tuple[Entries, int]:
        """Sorted by key, consistent at the returned revision.  The list is shared: never change it."""
        stretch, revision = self.page(namespace, predicate)
        return stretch.entries, revision

    def page(
        self, namespace: str = "", predicate: Predicate | None = None, start: str = "", limit: int = 0
    ) -> tuple[Stretch, int]:
        """From the name ``start`` on (of all namespaces: namespace/name) at most ``limit``, and the revision of that."""
        place = Range.of(namespace, start)
        if predicate is not None:
            name = predicate.fields.exact("metadata.name")
            if name is not None and (namespace or not self._scope.namespaced):
                entry = self._entries.by_key.get(f"{namespace}/{name}" if namespace else name)
                return read_one(entry, place, predicate), self._feed.revision
        while True:
            try:
                revision = self._feed.revision  # before the selection, in which others may write
                return read(self._entries, place, predicate, limit), revision
            except Unreadable:
                continue  # it is set aside now

    def list_at(self, revision: int, namespace: str = "", predicate: Predicate | None = None) -> Entries:
        """The list as it was at ``revision`` (await ``wait_for`` first).  Raises Compacted."""
        return self.page_at(revision, namespace, predicate).entries

    def page_at(
        self, revision: int, namespace: str = "", predicate: Predicate | None = None, start: str = "", limit: int = 0
    ) -> Stretch:
        """As ``page``, of what there was at ``revision`` (await ``wait_for`` first).  Raises Compacted."""
        self._history.check(revision, self._feed.floor, with_previous=False)
        former = None if self._history.newest <= revision else self._history.former(revision)
        return read(self._entries, Range.of(namespace, start), predicate, limit, former)

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

        ``since`` None starts now, else after that revision.  ``initial_events`` begins with an ADDED for each object
        there is (``since`` is then ignored: await ``wait_for`` or ``wait_fresh`` first); ``initial_end`` follows them
        with the annotated bookmark, before which ``on_listed`` is called.  ``bookmarks`` sends one about every minute, and one
        2 s before the client's ``timeout`` (seconds).  Raises Compacted.

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
        return self._history.after(since, until)  # of the history there is by then

    def forget(self, watch: Watch, group: Group) -> None:
        """A watch has ended."""
        group.watches.pop(watch, None)
        if not group.watches:
            self._groups.drop(group)
        if watch.bookmarks:
            self._feed.bookmarks.discard(watch)

    def end_watches(self, error: Exception | None, *, at_once: bool = False) -> None:
        """Nothing is delivered any more; of thousands of watches, some end in each turn (unless ``at_once``)."""
        ended = deque(watch for watch in self._groups.all() if watch.leave())

        def end_some() -> None:
            for _ in range(len(ended) if at_once else min(len(ended), _MAX_ENDS)):
                ended.popleft().send_end(error)
            if ended:
                self.later(end_some)

        end_some()

    def count_terminated(self) -> None:
        self.terminated += 1

    def later(self, function: Callable[[], object]) -> None:
        self._feed.later(function)

    def bookmark(self) -> Batch | None:
        """One for all watches of this resource; None while it does not know what has happened up to now."""
        return None if self.reload.running else Batch([WatchEvent(BOOKMARK, self._feed.revision, None)])

    # -- the feed

    def entry(self, namespace: str, name: str, revision: int, data: bytes) -> Entry:
        return Entry(self._scope, f"{namespace}/{name}" if namespace else name, namespace, name, revision, data)

    def load(self, contents: Contents) -> None:
        """Replaces everything."""
        self.changes += 1
        self.unreadable = {}
        self.initializations += 1
        self.loaded += len(contents.by_key) + len(contents.problems)
        for entry, problem in contents.problems.values():
            self._note_unreadable(entry, problem)
        self._entries.leave()
        self._entries = contents.entries
        self._history.leave()
        self._history = History(contents.ring, contents.complete_after, contents.floor)

    def forget_history(self) -> None:
        """After a fault in this resource: watches end and reads of the past fail with 410, so that clients list again."""
        self._history.clear(self._feed.revision)
        self.end_watches(Compacted(0, self._feed.revision + 1))

    def _note_unreadable(self, entry: Entry, problem: str) -> Unreadable:
        error = self.unreadable[entry.key] = Unreadable.of(self.resource, entry.key, entry.revision, problem)
        if len(self.unreadable) <= _MAX_NAMED:
            log.error(
                "an object cannot be read: {resource} {key}: {why}", resource=error.resource, key=entry.key, why=problem
            )
        return error

    def set_aside(self, entry: Entry, problem: str) -> Unreadable:
        """Somebody looked into an object that cannot be decoded: it leaves the lists."""
        if self._entries.by_key.get(entry.key) is not entry:  # what is there now may well be readable
            return Unreadable.of(self.resource, entry.key, entry.revision, problem).former()
        error = self._note_unreadable(entry, problem)
        self._entries.remove(entry.key)
        self.changes += 1
        self._feed.later(self.forget_history)  # not at once: its watchers may be getting an event just now
        return error

    def begin_anew(self) -> None:
        """After a fault: everything is read from the store again."""
        self.reload.begin()
        self.forget_history()

    def apply(self, kind: str, entry: Entry) -> CacheEvent | None:
        """Applies a change; returns the event, None when no reader can see one.  Groups that select it become dirty."""
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
        for group in self._groups.concerned(event):
            watch_event = group.select(event)
            if watch_event is not None:
                if not group.pending:
                    self._feed.dirty.append(group)
                group.pending.append(watch_event)
        if event.is_selected:
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
        previous = self._entries.by_key.get(entry.key)
        return None if previous is None else (DELETED, previous.at(entry.revision))

    def trim(self, event: CacheEvent) -> None:
        """The history loses its oldest event, unless a fault has taken it before."""
        self._history.trim(event)

    def drop_snapshots(self) -> None:
        """Drops former states that no read needs any more."""
        self._history.drop_states()

    def set_fields(self, fields: Fields | None, namespaced: bool | None) -> None:
        """Which fields can be selected; None leaves what is.  Raises ValueError for other fields than a shared scope has.

        Fields of the same names are read in the same way.
        """
        scope = self._scope
        before = scope.namespaced, scope.fields.keys()
        if scope.change(fields, namespaced) and (scope.namespaced, scope.fields.keys()) != before:
            for entry in steps(list(self._entries.by_key.values())):
                entry.forget_fields()
