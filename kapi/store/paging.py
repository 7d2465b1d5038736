"""Chooses how many entries to request at once, so that a reply has a few megabytes, whatever their size.

A reply is read, copied and processed as a whole.  With 500 objects of 3 MB each that would be 1.5 GB, and seconds in which no
other request is served.
"""

from __future__ import annotations

REPLY_BYTES = 4 * 1024 * 1024  # a reply should not exceed this by much
FIRST_COUNT = 16  # entries in the first request, when their size is not known


class Paging:
    """``count`` is how many entries to request next, at most ``max_count``."""

    def __init__(self, max_count: int, first: int = FIRST_COUNT) -> None:
        self._max_count = max_count
        self._first = min(first, max_count)
        self.count = self._first

    def took(self, entries: int, size: int) -> None:
        """Adapts ``count`` after a full reply of so many entries and bytes: the next ones are assumed to be as large."""
        if size > REPLY_BYTES:
            self.count = max(1, min(self.count, entries) * REPLY_BYTES // size)
        elif size <= REPLY_BYTES // 2:
            self.count = min(self._max_count, 2 * self.count)

    def reached(self, entries: int) -> None:
        """Adapts ``count`` after a reply with all entries that there are: the size of the next ones is not known."""
        self.count = min(self.count, max(self._first, 2 * entries))
