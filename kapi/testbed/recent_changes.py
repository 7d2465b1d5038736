"""Recent changes of a store, reported by the caches that follow it."""

from __future__ import annotations

from kapi.store.interface import CREATED, DELETED, UPDATED, Change
from kapi.watchcache.caches import Caches
from kapi.watchcache.event import ADDED, MODIFIED
from kapi.watchcache.event_log import LoggedEvent

_KINDS = {ADDED: CREATED, MODIFIED: UPDATED}


class RecentChanges:
    """The recent changes of the store that ``caches`` follow."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    @property
    def newest(self) -> int:
        """The revision of the last change."""
        return self._caches.revision

    def changes(self, since: int, until: int) -> list[Change]:
        """The changes after ``since``, up to ``until``, oldest first.  Raises Compacted when some of them have been dropped."""
        return [_change(logged) for logged in self._caches.between(since, until)]


def _change(logged: LoggedEvent) -> Change:
    resource, event = logged.cache.resource, logged.event
    entry = event.entry
    key = f"{resource.group or 'core'}/{resource.resource}/{entry.namespace}/{entry.name}"
    return Change(event.revision, _KINDS.get(event.kind, DELETED), key, entry.data)
