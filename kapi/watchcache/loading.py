"""What the caches of a store are to hold, from all of its objects and the changes that it remembers.

Nothing is changed here, so that it may take its time in slices; ``Caches.reset`` then takes the outcome in one piece.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from kapi.machinery.checkpoint import steps
from kapi.machinery.gvk import GroupResource
from kapi.store.interface import CREATED, UPDATED, Change, StoredObject
from kapi.store.interface import DELETED as GONE
from kapi.store.value import Value
from kapi.watchcache.cache import Cache
from kapi.watchcache.contents import Contents
from kapi.watchcache.entry import Entry
from kapi.watchcache.event import ADDED, DELETED, MODIFIED, CacheEvent
from kapi.watchcache.event_log import Logged
from kapi.watchcache.unreadable import problem_of

TYPES = {CREATED: ADDED, UPDATED: MODIFIED, GONE: DELETED}
#: finds the cache, namespace and name of a key; counts what another store keeps where it is given a counter; None: left out
Locate = Callable[[str, Counter[str] | None], tuple[Cache, str, str] | None]
#: by their keys in the store the objects that were read, and what is to hold them
Loaded = dict[str, tuple[Entry, Cache, Contents]]


class KeptElsewhere(ValueError):
    """An object of a resource that another store keeps: it is left where it is, and not served."""

    def __init__(self, resource: GroupResource) -> None:
        super().__init__(f"{resource} are kept in another store")
        self.resource = resource


def read_objects(
    objects: Iterable[StoredObject | Value], locate: Locate
) -> tuple[dict[Cache, Contents], Loaded, Counter[str]]:
    """What the caches are to hold, the objects by their keys, and how many another store keeps, by their resources."""
    found: dict[Cache, Contents] = {}
    misplaced: Counter[str] = Counter()
    loaded: Loaded = {}
    #: by what is before the name, which many keys have in common
    places: dict[str, tuple[Cache, str, Contents]] = {}
    for obj in steps(objects):
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
) -> deque[Logged]:
    """The events of all caches in order; each of ``found`` gets its own."""
    previous: dict[str, Entry | None] = {}
    events: deque[Logged] = deque()
    for change in steps(history):
        kind = TYPES[change.kind]
        known = loaded.get(change.key)
        if known is not None and known[0].revision == change.revision:
            entry, cache, contents = known  # it was looked at when it was loaded, and no further change of it follows
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
        events.append(Logged(cache, event))
    return events


def _of(found: dict[Cache, Contents], cache: Cache) -> Contents:
    """What a cache is to hold, begun when nothing is there yet."""
    contents = found.get(cache)
    if contents is None:
        contents = found[cache] = Contents()
    return contents
