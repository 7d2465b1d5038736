"""How much is asked of the store at once: so many entries that a reply has a few megabytes, whatever their size.

A reply is read, copied and handed on as a whole: of 500 objects of 3 MB each that is 1.5 GB, and seconds in which nobody else is
served.
"""

from __future__ import annotations

REPLY_BYTES = 4 * 1024 * 1024  # that a reply should not exceed by much
FIRST = 16  # entries, while it is not known how large they are


class Paging:
    """The ``count`` of entries to ask for next, ``most`` of them when they are small."""

    def __init__(self, most: int, first: int = FIRST) -> None:
        self._most = most
        self._first = min(first, most)
        self.count = self._first

    def took(self, entries: int, size: int) -> None:
        """There were so many in a full reply, with so many bytes: the next ones are taken to be alike."""
        if size > REPLY_BYTES:
            self.count = max(1, min(self.count, entries) * REPLY_BYTES // size)
        elif size <= REPLY_BYTES // 2:
            self.count = min(self._most, 2 * self.count)

    def reached(self, entries: int) -> None:
        """There were so many and no more for now: of what comes next nothing is known."""
        self.count = min(self.count, max(self._first, 2 * entries))
