"""When each watch gets its bookmark: a wheel with one spoke a second, so that an idle watch costs nothing in between.

Upstream: apiserver ``storage/cacher`` (watchBookmarks).
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.watchcache.watch import Watch

EVERY = 60  # seconds
BEFORE_TIMEOUT = 2  # seconds before a client's timeout, so that it can go on from there


class BookmarkWheel:
    """``seconds`` is the reactor's clock; ``turn`` is called once a second."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._spokes: dict[int, dict[Watch, None]] = {}
        self._spoke_of: dict[Watch, int] = {}
        self._turned = int(seconds())

    def add(self, watch: Watch) -> None:
        """Makes the watch due in a minute, or shortly before its client's timeout."""
        now = self._seconds()
        due = now + EVERY
        last = watch.deadline - BEFORE_TIMEOUT
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
        """The watches that are due; they stay in the wheel."""
        now = int(self._seconds())
        due: list[Watch] = []
        while self._turned < now:
            self._turned += 1
            due.extend(self._spokes.pop(self._turned, ()))
        for watch in due:
            self.add(watch)
        return due
