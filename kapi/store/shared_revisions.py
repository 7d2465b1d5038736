"""The newest revision that each worker process has shown to clients, in memory that the processes share.

A process raises the revision in its slot before data of that revision leave the process: the reply to a write, the actual state
in the refusal of a write, or what its cache has received.  A process that has all changes up to the newest revision of all
slots has everything that clients can know of.  So it can answer a linearizable read without a request to the store.

This is only correct while all processes that write to the store share this memory, and know the same history.  After a
reconnect the history may be another one.  So each process counts its connections in its slot, and after any change of the
counts every process sends one request to the store.  ``lives()`` returns whether the supervisor that made the memory is alive:
without it another supervisor may start with memory of its own, and nothing may be written any more.

Each word has 8 aligned bytes, and is read and written in one step by one process.  It only decreases when the history is
another one.  A process that ends leaves its words unchanged; the next one that takes its slot continues from there.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Sequence

from kapi.store.interface import Change, Follower, StoredObject
from kapi.store.table import Value

_WORD_BYTES = 8  # bytes


def make_shared_file(slots: int) -> int:
    """The descriptor of a file in memory with so many slots, for child processes to inherit.  Raises OSError."""
    if hasattr(os, "memfd_create"):
        file: int = os.memfd_create("revisions")
    else:
        with tempfile.TemporaryFile() as made:
            file = os.dup(made.fileno())
    os.ftruncate(file, 2 * slots * _WORD_BYTES)
    return file


def take_slot(file: int) -> int:
    """Takes the first slot that no living process has, until this process ends.  Raises OSError when there is none.

    The lock belongs to the process (``lockf``), and not to the file's descriptor, which all processes have inherited.
    """
    for slot in range(os.fstat(file).st_size // (2 * _WORD_BYTES)):
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except (BlockingIOError, PermissionError):
            continue
        return slot
    raise OSError("no slot is free in the memory that the workers share: too many of them are still ending")


class SharedRevisions:
    """The shared memory, as used by the process that has ``slot``."""

    def __init__(self, file: int, slot: int, lives: Callable[[], bool]) -> None:
        self.lives = lives
        self._memory = mmap.mmap(file, 0)
        self._words = memoryview(self._memory).cast("Q")  # the revisions of all slots, then how often each connected
        self._count = len(self._words) // 2
        self._slot = slot
        self._shown = self._words[slot]
        #: the number of connections when the store was last found to have our history; None: it may have another one
        self._agreed: int | None = None
        self._checked = b""  # the memory at the last complete check
        self._newest: int  # the newest revision then; not read while ``_checked`` is empty

    def show(self, revision: int) -> None:
        """Must be called before data of that revision leave this process."""
        if revision > self._shown:
            self._shown = self._words[self._slot] = revision

    def connected(self) -> None:
        """Must be called before a new connection to the store is used."""
        self._words[self._count + self._slot] += 1
        self._agreed = None
        self._checked = b""

    def loaded(self, revision: int) -> None:
        """Called after a reload, with the revision of the loaded history, which may be another one."""
        self._shown = self._words[self._slot] = revision

    def is_current(self, revision: int) -> bool:
        """Whether no process has shown a newer revision; False also when only a request to the store can tell."""
        if self._memory[:] == self._checked and revision >= self._newest:
            return True
        words = self._words.tolist()
        newest = max(words[: self._count])
        if newest > revision or sum(words[self._count :]) != self._agreed:
            return False
        # made from the compared words, and not a second copy of the memory, which may have changed since
        self._checked, self._newest = array("Q", words).tobytes(), newest
        return True

    def connections(self) -> int:
        """How often all processes have connected: read it before a request to the store, pass it to ``agree`` after the reply."""
        return sum(self._words[self._count :].tolist())

    def agree(self, connections: int) -> None:
        """Notes that after so many connections the store had the history that this process knows."""
        self._agreed = connections

    def following(self, follower: Follower) -> Follower:
        """A follower that shows each revision and then passes the data to ``follower``."""
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
