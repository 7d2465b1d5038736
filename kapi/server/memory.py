"""Gives memory back to the system after a burst.

The C library keeps what was freed, for pages in the middle of its heap are not returned by themselves: after a hundred clients
that did not read, a gigabyte stayed.  Every few seconds it is asked how much is free; when that is much more than after the
last time, or the process has grown by much more than what is in use, it returns it (``malloc_trim``), in a thread.
The latter is how a burst shows that has come and gone since the last look: as much is free as before, but not returned.

Blocks of some 100 kB, as answers are written in, come out of the heap: each of them alone from the system and back would cost
more than to fill it. glibc finds that out by itself only after a process has happened to free a large block.
"""

from __future__ import annotations

import ctypes
import os

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from kapi.request.reactor import Reactor
from kapi.request.repeated import Repeated

log = Logger()
EVERY = 5.0  # seconds
_MIN_BYTES = 8 * 1024 * 1024  # bytes that are worth it
_MIN_PART = 20  # and a twentieth of the process
_MAX_HEAP_BLOCK_BYTES = 1024 * 1024  # bytes: larger blocks are got from the system one by one
_MAX_HEAP_END_BYTES = 2 * 1024 * 1024  # bytes that may be free at the end of the heap
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Usage(ctypes.Structure):
    """``struct mallinfo2``."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


class Allocator:
    """Functions of glibc; with another C library they do nothing."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._trim = getattr(library, "malloc_trim", None)
        self._usage = getattr(library, "mallinfo2", None)
        self._set = getattr(library, "mallopt", None)
        if self._usage is not None:
            self._usage.restype = _Usage

    def resident(self) -> int:
        """Bytes that the process has."""
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * _PAGE

    def free(self) -> int:
        """Bytes that are free in the heap, returned or not."""
        return 0 if self._usage is None else int(self._usage().fordblks)

    def used(self) -> int:
        """Bytes of the heap that are not free."""
        return 0 if self._usage is None else int(self._usage().uordblks)

    def reuse(self) -> None:
        """From now on blocks of up to 1 MiB are used again instead of being given back one by one."""
        if self._set is not None:
            self._set(_M_MMAP_THRESHOLD, _MAX_HEAP_BLOCK_BYTES)
            self._set(_M_TRIM_THRESHOLD, _MAX_HEAP_END_BYTES)

    def trim(self) -> None:
        """Returns what can be returned."""
        if self._trim is not None:
            self._trim(0)


class MemoryReturn:
    """Looks every few seconds."""

    def __init__(self, reactor: Reactor, allocator: Allocator | None = None) -> None:
        self._reactor = reactor
        self._allocator = Allocator() if allocator is None else allocator
        self._returned = 0  # bytes that are free and have been returned, or could not be
        self._after: tuple[int, int] | None = None  # bytes that were resident and used after the last time
        self._call = Repeated(self.look, reactor, "giving memory back")

    def start(self) -> None:
        self._allocator.reuse()
        self._call.start(EVERY)

    def stop(self) -> None:
        self._call.stop()

    def look(self) -> Deferred[None] | None:
        """Fires when memory that was to be returned is."""
        free, resident = self._allocator.free(), self._allocator.resident()
        self._returned = min(self._returned, free)
        to_return = max(free - self._returned, min(free, self._grown(resident)))
        if to_return < _MIN_BYTES or to_return < resident // _MIN_PART:
            return None
        work: Deferred[None] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self._allocator.trim)
        self._returned = free  # what is freed while that goes on may stay: the next look is for it
        work.addCallback(self._done, resident)
        return work

    def _grown(self, resident: int) -> int:
        """Bytes by which the process has grown since the last time beyond what it uses."""
        if self._after is None:
            return 0
        before, used_before = self._after
        used = self._allocator.used()
        grown = (resident - before) - (used - used_before)
        if grown < 0:
            self._after = resident, used
        return grown

    def _done(self, _: None, before: int) -> None:
        resident = self._allocator.resident()
        self._after = resident, self._allocator.used()
        size = max(0, before - resident)
        log.info("{size} MB of memory given back", size=size // 1_000_000)
