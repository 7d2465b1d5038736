"""The watch caches of one of many stores in memory that share most of their objects: those of logical clusters.

What such a store shares with others is read once for all of them, and a resource's cache is made when somebody looks
into it or writes to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from twisted.internet.interfaces import IReactorTime

from kapi.machinery.checkpoint import in_one_piece, steps
from kapi.machinery.gvk import GroupResource
from kapi.request.call import Call
from kapi.store.interface import Change, StoredObject
from kapi.store.memory import MemoryStore
from kapi.store.table import Table
from kapi.store.value import Value
from kapi.watchcache.cache import Cache
from kapi.watchcache.caches import Caches
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import Entry, Fields, SharedScope
from kapi.watchcache.event_log import Logged
from kapi.watchcache.loading import Loaded
from kapi.watchcache.observers import Observer
from kapi.watchcache.unreadable import problem_of

Place = tuple[str, str]  # a resource's group, or "core", and its plural name


@dataclass(slots=True, eq=False)
class Reading:
    """What was made of a table: it serves all stores that have it."""

    contents: Contents  # of the objects whose entries are shared
    others: list[Value]
    #: whether one of those objects has one of these marks, by the marks
    marked: dict[tuple[bytes, ...], bool] = field(default_factory=dict)

    def has(self, marks: tuple[bytes, ...]) -> bool:
        known = self.marked.get(marks)
        if known is None:
            entries = self.contents.by_key.values()
            known = self.marked[marks] = any(mark in entry.data for entry in steps(entries) for mark in marks)
        return known


class SharedScopes:
    """By resource: those whose selectable fields are the same in all stores.  ``main`` has what is kept decoded."""

    def __init__(self, main: Caches, fields: Mapping[GroupResource, tuple[Fields, bool]]) -> None:
        """``fields``: which can be selected, and whether the resource is namespaced."""
        self._scopes = {
            place: main.shared_scope(place, selectable, namespaced)
            for place, selectable, namespaced in (
                ((resource.group or "core", resource.resource), *each) for resource, each in fields.items()
            )
        }

    def get(self, place: Place) -> SharedScope | None:
        return self._scopes.get(place)


class LateCaches(Caches):
    """Of ``store``; ``tick`` is called from outside."""

    def __init__(
        self, store: MemoryStore, reactor: IReactorTime, scopes: SharedScopes, *, main: Caches, call: Call
    ) -> None:
        super().__init__(store, reactor, main=main, call=call)
        self._scopes = scopes
        self._tables = store.tables
        self._held: dict[str, Table] = {}  # what is being loaded
        self._waiting: dict[Place, Reading] = {}  # what resources have whose cache nobody has needed yet
        self._read: dict[Place, Reading] = {}  # what these will be when it is loaded

    async def start(self) -> None:
        self._held = self._tables()
        await super().start()
        self._held = {}

    def observe(self, observer: Observer) -> None:
        """Resources without objects that concern it are not read: the observer gets what changes in them later."""
        for place, reading in list(self._waiting.items()):
            if reading.has(observer.marks):
                self._cache_of(*place)
        super().observe(observer)

    # -- the store's follower

    def _contents(
        self, objects: Iterable[StoredObject | Value], history: Sequence[Change]
    ) -> tuple[dict[Cache, Contents], Loaded]:
        """Of resources with a history, or with objects that are not shared; what was read of others is put by."""
        read = self._read = {}
        others: list[StoredObject | Value] = []
        for name, table in steps(self._held.items(), 1):
            group, _, resource = name.partition("/")
            found = self._reading(table, (group, resource))
            others.extend(found.others)
            if found.contents.by_key:
                read[group, resource] = found
        made, loaded = super()._contents(others, history)
        for place in read.keys() & {_place_of(one.key) for one in (*history, *others)}:
            made.setdefault(self._cache_of(*place), Contents()).include(read.pop(place).contents.by_key.values())
        return made, loaded

    def _reading(self, table: Table, place: Place) -> Reading:
        """What the table holds, read by whoever needs it first."""
        found = table.read
        if not isinstance(found, Reading):
            scope, contents, others = self._scopes.get(place), Contents(), []
            for obj in steps(table.values()):
                entry = None if scope is None else _shared(obj, scope)
                if entry is None:
                    others.append(obj)
                else:
                    contents.by_key[entry.key] = entry
            found = table.read = Reading(contents.finish(), others)
        return found

    def _take(
        self, found: dict[Cache, Contents], events: deque[Logged], history: Sequence[Change], revision: int
    ) -> None:
        self._waiting, self._read = self._read, {}
        for place, cache in self._caches.items():  # some were made meanwhile
            reading = self._waiting.pop(place, None)
            if reading is not None:
                found.setdefault(cache, Contents()).include(reading.contents.by_key.values())
        super()._take(found, events, history, revision)

    def _make(self, resource: GroupResource) -> Cache:
        place = resource.group or "core", resource.resource
        scope = self._scopes.get(place)
        cache = super()._make(resource) if scope is None else Cache(self, resource, scope)
        reading = self._waiting.pop(place, None)
        if reading is not None:
            with in_one_piece():
                cache.load(reading.contents.copy())
        return cache


def _shared(obj: Value, scope: SharedScope) -> Entry | None:
    """The entry, from now on that of all stores that have this object; None when it cannot be shared."""
    if obj.loaded is None:
        _, _, namespace, name = obj.key.split("/", 3)
        if not problem_of(obj.data, obj.revision, name):
            key = f"{namespace}/{name}" if namespace else name
            obj.loaded = Entry(scope, key, namespace, name, obj.revision, obj.data)
    return cast("Entry | None", obj.loaded)


def _place_of(key: str) -> Place:
    group, _, rest = key.partition("/")
    return group, rest.partition("/")[0]
