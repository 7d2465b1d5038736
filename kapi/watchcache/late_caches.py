"""The watch caches of one of many stores in memory that share most of their objects: those of logical clusters.

What such a store shares with others is read once for all of them, and a resource's cache is made when somebody looks
into it or writes to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from twisted.internet.interfaces import IReactorTime

from kapi.machinery.checkpoint import Call, in_one_piece, steps
from kapi.machinery.gvk import GroupResource
from kapi.store.interface import Change, StoredObject
from kapi.store.memory import MemoryStore
from kapi.store.value import Value
from kapi.watchcache.cache import Cache
from kapi.watchcache.caches import Caches
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import Entry, Fields, SharedScope
from kapi.watchcache.event_log import Logged
from kapi.watchcache.observers import Observer
from kapi.watchcache.unreadable import problem_of

Place = tuple[str, str]  # a resource's group, or "core", and its plural name
_PART = 500  # objects that have entries already, between two checkpoints


class SharedScopes:
    """By resource: those whose selectable fields are the same in all stores.  ``beside`` has what is kept decoded."""

    def __init__(self, beside: Caches, fields: Mapping[GroupResource, tuple[Fields, bool]]) -> None:
        """``fields``: which can be selected, and whether the resource is namespaced."""
        self._scopes = {
            place: beside.shared_scope(place, selectable, namespaced)
            for place, selectable, namespaced in (
                ((resource.group or "core", resource.resource), *each) for resource, each in fields.items()
            )
        }

    def get(self, place: Place) -> SharedScope | None:
        return self._scopes.get(place)


class LateCaches(Caches):
    """Of ``store``; ``tick`` is called from outside."""

    def __init__(
        self, store: MemoryStore, reactor: IReactorTime, scopes: SharedScopes, *, beside: Caches, call: Call
    ) -> None:
        super().__init__(store, reactor, beside=beside, call=call)
        self._scopes = scopes
        self._read: dict[Place, list[Entry]] = {}  # what is being loaded
        self._waiting: dict[Place, list[Entry]] = {}  # what resources have whose cache nobody has needed yet

    def observe(self, observer: Observer) -> None:
        for place in list(self._waiting):
            self._cache_of(*place)
        super().observe(observer)

    # -- the store's follower

    def _contents(self, objects: Iterable[StoredObject | Value], history: Sequence[Change]) -> dict[Cache, Contents]:
        """Of resources with a history, or with objects that are not shared; the entries of others are put by."""
        read: dict[Place, list[Entry]] = {}
        self._read = read
        unread: list[StoredObject | Value] = []
        given = list(objects)
        for start in steps(range(0, len(given), _PART), 1):
            for obj in given[start : start + _PART]:
                entry = obj.loaded if isinstance(obj, Value) else None
                if entry is None:
                    unread.append(obj)
                else:
                    read.setdefault(entry.scope.place, []).append(entry)
        others = []
        for obj in steps(unread):
            entry = self._shared(obj) if isinstance(obj, Value) else None
            if entry is None:
                others.append(obj)
            else:
                read.setdefault(_place_of(obj.key), []).append(entry)
        found = super()._contents(others, history)
        for place in read.keys() & {_place_of(one.key) for one in (*history, *others)}:
            found.setdefault(self._cache_of(*place), Contents()).include(read.pop(place))
        return found

    def _shared(self, obj: Value) -> Entry | None:
        """The entry, from now on that of all stores that have this object; None when it cannot be shared."""
        place = _place_of(obj.key)
        scope = self._scopes.get(place)
        if scope is None:
            return None
        _, _, namespace, name = obj.key.split("/", 3)
        if problem_of(obj.data, obj.revision, name):
            return None
        key = f"{namespace}/{name}" if namespace else name
        obj.loaded = entry = Entry(scope, key, namespace, name, obj.revision, obj.data)
        return entry

    def _take(
        self, found: dict[Cache, Contents], events: deque[Logged], history: Sequence[Change], revision: int
    ) -> None:
        self._waiting, self._read = self._read, {}
        for place, cache in self._caches.items():  # some were made meanwhile
            entries = self._waiting.pop(place, None)
            if entries:
                found.setdefault(cache, Contents()).include(entries)
        super()._take(found, events, history, revision)

    def _make(self, resource: GroupResource) -> Cache:
        place = resource.group or "core", resource.resource
        scope = self._scopes.get(place)
        cache = super()._make(resource) if scope is None else Cache(self, resource, scope)
        entries = self._waiting.pop(place, None)
        if entries:
            contents = Contents()
            contents.include(entries)
            with in_one_piece():
                cache.load(contents)
        return cache


def _place_of(key: str) -> Place:
    group, _, rest = key.partition("/")
    return group, rest.partition("/")[0]
