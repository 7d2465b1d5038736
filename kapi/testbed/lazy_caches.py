"""The watch caches of one logical cluster, whose in-memory store shares most of its objects with the stores of other clusters.

Shared objects are read once for all clusters, and the cache of a resource is made when it is first read or written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from twisted.internet.interfaces import IReactorTime

from kapi.machinery.checkpoint import in_one_piece
from kapi.machinery.each import costly, elements
from kapi.machinery.gvk import GroupResource
from kapi.process.driver import Call
from kapi.store.interface import Change, StoredObject
from kapi.store.memory import MemoryStore
from kapi.store.table import Table, Value
from kapi.watchcache.cache import Cache
from kapi.watchcache.caches import Caches
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import Entry, Fields, SharedScope
from kapi.watchcache.event_log import LoggedEvent
from kapi.watchcache.loading import Loaded
from kapi.watchcache.observers import Observer
from kapi.watchcache.unreadable import problem_of

Place = tuple[str, str]  # a resource's group, or "core", and its plural name


@dataclass(slots=True, eq=False)
class TableContents:
    """The entries made from a table, for all stores that share the table."""

    contents: Contents  # the objects whose entries can be shared
    others: list[Value]  # the objects whose entries cannot
    #: results of ``has``
    marked: dict[tuple[bytes, ...], bool] = field(default_factory=dict)

    def has(self, marks: tuple[bytes, ...]) -> bool:
        """Whether the bytes of any shared object contain one of the marks."""
        known = self.marked.get(marks)
        if known is None:
            entries = self.contents.by_key.values()
            known = self.marked[marks] = any(mark in entry.data for entry in elements(entries) for mark in marks)
        return known


class SharedScopes:
    """The scopes of the resources whose selectable fields are the same in all stores."""

    def __init__(self, main: Caches, fields: Mapping[GroupResource, tuple[Fields, bool]]) -> None:
        """``fields``: by resource its selectable fields, and whether it is namespaced.  ``main`` bounds the decoded objects."""
        self._scopes = {
            place: main.shared_scope(place, selectable, namespaced)
            for place, selectable, namespaced in (
                ((resource.group or "core", resource.resource), *each) for resource, each in fields.items()
            )
        }

    def get(self, place: Place) -> SharedScope | None:
        return self._scopes.get(place)


class LazyCaches(Caches):
    """The caches of ``store``; the caller must call ``tick`` once a second."""

    def __init__(
        self, store: MemoryStore, reactor: IReactorTime, scopes: SharedScopes, *, main: Caches, call: Call
    ) -> None:
        super().__init__(store, reactor, main=main, call=call)
        self._scopes = scopes
        self._tables = store.tables
        self._held: dict[str, Table] = {}  # the tables that are being loaded
        self._waiting: dict[Place, TableContents] = {}  # contents of the resources without a cache yet
        self._read: dict[Place, TableContents] = {}  # the next ``_waiting``, while the store is being loaded

    async def start(self) -> None:
        self._held = self._tables()
        await super().start()
        self._held = {}

    def observe(self, observer: Observer) -> None:
        """Adds an observer.  Makes caches only for resources that have objects with one of the observer's marks."""
        for place, reading in list(self._waiting.items()):
            if reading.has(observer.marks):
                self._cache_of(*place)
        super().observe(observer)

    # -- the store's follower

    def _contents(
        self, objects: Iterable[StoredObject | Value], history: Sequence[Change]
    ) -> tuple[dict[Cache, Contents], Loaded]:
        """The contents of resources with a history or with unshared objects; those of others stay in ``_read``."""
        read = self._read = {}
        others: list[StoredObject | Value] = []
        for name, table in costly(self._held.items()):
            group, _, resource = name.partition("/")
            found = self._reading(table, (group, resource))
            others.extend(found.others)
            if found.contents.by_key:
                read[group, resource] = found
        made, loaded = super()._contents(others, history)
        for place in read.keys() & {_place_of(one.key) for one in (*history, *others)}:
            made.setdefault(self._cache_of(*place), Contents()).include(read.pop(place).contents.by_key.values())
        return made, loaded

    def _reading(self, table: Table, place: Place) -> TableContents:
        """The contents of a table, made by the first store that needs them."""
        found = table.read
        if not isinstance(found, TableContents):
            scope, contents, others = self._scopes.get(place), Contents(), []
            for obj in elements(table.values()):
                entry = None if scope is None else _shared(obj, scope)
                if entry is None:
                    others.append(obj)
                else:
                    contents.by_key[entry.key] = entry
            found = table.read = TableContents(contents.finish(), others)
        return found

    def _take(
        self, found: dict[Cache, Contents], events: deque[LoggedEvent], history: Sequence[Change], revision: int
    ) -> None:
        self._waiting, self._read = self._read, {}
        for place, cache in self._caches.items():  # also those made while the store was loaded
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
    """The entry that all stores with this object share, made on the first call; None when the object cannot be read."""
    if obj.loaded is None:
        _, _, namespace, name = obj.key.split("/", 3)
        if not problem_of(obj.data, obj.revision, name):
            key = f"{namespace}/{name}" if namespace else name
            obj.loaded = Entry(scope, key, namespace, name, obj.revision, obj.data)
    return cast("Entry | None", obj.loaded)


def _place_of(key: str) -> Place:
    group, _, rest = key.partition("/")
    return group, rest.partition("/")[0]
