"""When each watch gets its next bookmark.

A timer wheel with one slot for each second: an idle watch costs nothing between two bookmarks (upstream: apiserver
``storage/cacher``, ``watcherBookmarkTimeBuckets``).
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.watchcache.watch import Watch

INTERVAL_SECONDS = 60
BEFORE_TIMEOUT_SECONDS = 2  # a last bookmark shortly before the client's timeout, so that it can resume from there


class BookmarkWheel:
    """``seconds`` is the reactor's clock; ``turn`` must be called once a second."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._spokes: dict[int, dict[Watch, None]] = {}
        self._spoke_of: dict[Watch, int] = {}
        self._turned = int(seconds())

    def add(self, watch: Watch) -> None:
        """Schedules the watch's bookmark: in a minute, or shortly before its client's timeout."""
        now = self._seconds()
        due = now + INTERVAL_SECONDS
        last = watch.deadline - BEFORE_TIMEOUT_SECONDS
        if watch.deadline and now < last < due:
            due = last
        spoke = max(int(due), self._turned + 1)
        self._spokes.setdefault(spoke, {})[watch] = None
        self._spoke_of[watch] = spoke

    def discard(self, watch: Watch) -> None:
        spoke = self._spoke_of.pop(watch, None)
        if spoke is not None:
            watches = self._spokes.get(spoke)
            if watches is not None:
                watches.pop(watch, None)

    def turn(self) -> list[Watch]:
        """Returns the watches whose bookmark is due, and schedules their next one."""
        now = int(self._seconds())
        due: list[Watch] = []
        while self._turned < now:
            self._turned += 1
            due.extend(self._spokes.pop(self._turned, ()))
        for watch in due:
            self.add(watch)
        return due
