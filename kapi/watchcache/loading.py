"""Makes the contents of all caches from the store's objects and recent changes.

No cache is changed here, so that the work can be done in slices; ``Caches.reset`` then replaces the contents at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource
from kapi.store.interface import CREATED, UPDATED, Change, StoredObject
from kapi.store.interface import DELETED as GONE
from kapi.store.table import Value
from kapi.watchcache.cache import Cache
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import ADDED, DELETED, MODIFIED, CacheEvent
from kapi.watchcache.event_log import LoggedEvent
from kapi.watchcache.unreadable import problem_of

TYPES = {CREATED: ADDED, UPDATED: MODIFIED, GONE: DELETED}
#: returns the cache, namespace and name of a key, None for an object to leave out; the counter, if given, counts objects that
#: belong into another store
Locate = Callable[[str, Counter[str] | None], tuple[Cache, str, str] | None]
#: by store key: the entry, its cache, and the contents that it was added to
Loaded = dict[str, tuple[Entry, Cache, Contents]]


class KeptElsewhere(ValueError):
    """An object of a resource that belongs into another store: it is neither served nor deleted."""

    def __init__(self, resource: GroupResource) -> None:
        super().__init__(f"{resource} are kept in another store")
        self.resource = resource


def read_objects(
    objects: Iterable[StoredObject | Value], locate: Locate
) -> tuple[dict[Cache, Contents], Loaded, Counter[str]]:
    """Returns the contents of each cache, the readable objects by key, and the counts of misplaced objects by resource."""
    found: dict[Cache, Contents] = {}
    misplaced: Counter[str] = Counter()
    loaded: Loaded = {}
    #: by the part of the key before the name, which many keys have in common
    places: dict[str, tuple[Cache, str, Contents]] = {}
    for obj in elements(objects):
        start, _, name = obj.key.rpartition("/")
        place = places.get(start)
        if place is None:
            located = locate(obj.key, misplaced)
            if located is None:
                continue
            cache, namespace, whole_name = located
            place = cache, namespace, _of(found, cache)
            if name == whole_name:
                places[start] = place
            name = whole_name
        cache, namespace, contents = place
        entry = cache.entry(namespace, name, obj.revision, obj.data)
        if contents.add(entry):
            loaded[obj.key] = entry, cache, contents
    return found, loaded, misplaced


def read_history(
    history: Sequence[Change], found: dict[Cache, Contents], loaded: Loaded, locate: Locate
) -> deque[LoggedEvent]:
    """Returns the events of all caches in order, and adds to each of ``found`` its own."""
    previous: dict[str, Entry | None] = {}
    events: deque[LoggedEvent] = deque()
    for change in elements(history):
        kind = TYPES[change.kind]
        known = loaded.get(change.key)
        if known is not None and known[0].revision == change.revision:
            entry, cache, contents = known  # the object's last change; its entry has been checked by ``read_objects``
            event = CacheEvent(change.revision, kind, entry, None if kind == ADDED else previous.get(change.key))
        else:
            located = locate(change.key, None)
            if located is None:
                continue
            cache, namespace, name = located
            contents = _of(found, cache)
            entry = cache.entry(namespace, name, change.revision, change.data)
            stored = contents.by_key.get(entry.key)
            if stored is not None and stored.revision == change.revision:
                entry = stored
            elif problem_of(entry.data, entry.revision, entry.name):
                contents.remember_gap(change.revision)
                previous.pop(change.key, None)
                continue
            event = CacheEvent(change.revision, kind, entry, previous.get(change.key))
            previous[change.key] = None if kind == DELETED else entry
        contents.remember(event)
        events.append(LoggedEvent(cache, event))
    return events


def _of(found: dict[Cache, Contents], cache: Cache) -> Contents:
    """The contents of a cache, made when missing."""
    contents = found.get(cache)
    if contents is None:
        contents = found[cache] = Contents()
    return contents
