"""What the processes on one store have shown to anybody: a revision of each, in memory that they share.

A process raises its slot before anything of a revision leaves it: the answer to a write, what an object turned out to be instead,
what its cache has from the feed.  Whoever has all changes up to the newest of the slots has all that anybody can know of, so a
linearizable read by it needs no question to the store.

That is right while all who write to the store share this memory, and know the same history.  So who connects to the store anew,
when the history may have become another one, counts that in its slot, and everybody asks the store once after it has.  ``lives``
says whether the parent that made the memory does: without it another one may begin with memory of its own, and nothing may be
written any more.

Each word has 8 aligned bytes, is written by one process at once and read at once; it never goes back but for another history.
A process that ends leaves its words as they are, and who takes its slot goes on from there.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Sequence

from kapi.store.interface import Change, Follower, StoredObject
from kapi.store.value import Value

_WORD_BYTES = 8  # bytes


def make_shared_file(slots: int) -> int:
    """The descriptor of a file in memory with so many slots, for children to inherit.  Raises OSError."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("revisions")
    else:
        with tempfile.TemporaryFile() as made:
            file = os.dup(made.fileno())
    os.ftruncate(file, 2 * slots * _WORD_BYTES)
    return file


def take_slot(file: int) -> int:
    """The first slot that no living process has; it is this one's until it ends.  Raises OSError when there is none.

    A lock of the process and not of the file's descriptor, which all have from their parent.
    """
    for slot in range(os.fstat(file).st_size // (2 * _WORD_BYTES)):
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except (BlockingIOError, PermissionError):
            continue
        return slot
    raise OSError("no slot is free in the memory that the workers share: too many of them are still ending")


class SharedRevisions:
    """The view of the process that has ``slot``."""

    def __init__(self, file: int, slot: int, lives: Callable[[], bool]) -> None:
        self.lives = lives
        self._memory = mmap.mmap(file, 0)
        self._words = memoryview(self._memory).cast("Q")  # the revisions of all slots, then how often each connected
        self._count = len(self._words) // 2
        self._slot = slot
        self._shown = self._words[slot]
        self._agreed = -1  # the connections after which the store was asked and had our history
        self._looked = b""  # the memory as it was when it was last looked at, and had the newest revision ``_newest``
        self._newest = 0

    def show(self, revision: int) -> None:
        """Before anything of that revision leaves this process."""
        if revision > self._shown:
            self._shown = self._words[self._slot] = revision

    def connected(self) -> None:
        """Before anything is read from a new connection to the store, or written to it."""
        self._words[self._count + self._slot] += 1
        self._agreed = -1
        self._looked = b""

    def loaded(self, revision: int) -> None:
        """All that this process shows from now on is of a history that has come to that revision."""
        self._shown = self._words[self._slot] = revision

    def is_current(self, revision: int) -> bool:
        """Whether nobody was shown anything newer; False also when that cannot be known without a question."""
        if revision >= self._newest and self._memory[:] == self._looked:
            return True
        words = self._words.tolist()
        newest = max(words[: self._count])
        if newest > revision or sum(words[self._count :]) != self._agreed:
            return False
        # made of what was compared, and not copied once more: it is looked at as soon as it differs
        self._looked, self._newest = array("Q", words).tobytes(), newest
        return True

    def connections(self) -> int:
        """How often anybody has connected so far: to be agreed to when a question that is asked now has been answered."""
        return sum(self._words[self._count :].tolist())

    def agree(self, connections: int) -> None:
        """The store was asked after so many connections, and has the history that this process knows."""
        self._agreed = connections

    def following(self, follower: Follower) -> Follower:
        """The follower, whose revisions are shown before it has them."""
        return _Following(self, follower)


class _Following:
    def __init__(self, shared: SharedRevisions, follower: Follower) -> None:
        self._shared = shared
        self._follower = follower

    def reset(self, objects: Iterable[StoredObject | Value], history: Sequence[Change], revision: int) -> None:
        self._shared.show(revision)
        self._follower.reset(objects, history, revision)
        self._shared.loaded(revision)

    def changed(self, changes: Sequence[Change]) -> None:
        if changes:
            self._shared.show(changes[-1].revision)
        self._follower.changed(changes)
