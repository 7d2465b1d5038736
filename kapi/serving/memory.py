"""Returns free memory to the system after a burst.

glibc does not return free pages in the middle of its heap by itself: after a hundred clients that did not read, a gigabyte
stayed.  So every few seconds the free memory is checked, and returned by ``malloc_trim``, in a thread.  This happens when much
more is free than after the last time, or when the process has grown much more than the memory in use.  The latter shows a burst
that has come and gone between two checks: as much is free as before, but it was not returned.

Blocks of some 100 kB, the size of parts of answers, are taken from the heap.  To get each of them from the system would cost
more than to fill it.  glibc adapts to this only after a process has freed a large block.
"""

from __future__ import annotations

import ctypes
import linecache
import os

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from kapi.machinery.memo import forget_burst
from kapi.request.reactor import Reactor
from kapi.request.repeated import Repeated

log = Logger()
INTERVAL_SECONDS = 5.0  # between two checks
_MIN_BYTES = 8 * 1024 * 1024  # less is not returned
_MIN_PART = 20  # nor less than a twentieth of the process
_MAX_HEAP_BLOCK_BYTES = 1024 * 1024  # larger blocks are mapped from the system one by one
_MAX_HEAP_END_BYTES = 2 * 1024 * 1024  # that may be free at the end of the heap
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
        """Resident bytes of the process."""
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * _PAGE

    def free(self) -> int:
        """Bytes that are free in the heap, returned or not."""
        return 0 if self._usage is None else int(self._usage().fordblks)

    def used(self) -> int:
        """Bytes of the heap that are not free."""
        return 0 if self._usage is None else int(self._usage().uordblks)

    def reuse(self) -> None:
        """Makes glibc reuse blocks of up to 1 MiB instead of returning them one by one."""
        if self._set is not None:
            self._set(_M_MMAP_THRESHOLD, _MAX_HEAP_BLOCK_BYTES)
            self._set(_M_TRIM_THRESHOLD, _MAX_HEAP_END_BYTES)

    def trim(self) -> None:
        """Returns free memory to the system."""
        if self._trim is not None:
            self._trim(0)


def forget_sources() -> None:
    """Drops the lines of source files that Python keeps for every file of every traceback that was logged."""
    for name, cached in list(linecache.cache.items()):
        if len(cached) > 1 and cached[1] is not None:  # a file's time: what is generated has none, and is nowhere else
            linecache.cache.pop(name, None)


class MemoryReturn:
    """Checks every few seconds whether memory should be returned."""

    def __init__(self, reactor: Reactor, allocator: Allocator | None = None) -> None:
        self._reactor = reactor
        self._allocator = Allocator() if allocator is None else allocator
        self._returned = 0  # bytes that are free and have been returned, or could not be
        self._after: tuple[int, int] | None = None  # bytes that were resident and used after the last time
        self._call = Repeated(self.look, reactor, "giving memory back")

    def start(self) -> None:
        self._allocator.reuse()
        self._call.start(INTERVAL_SECONDS)

    def stop(self) -> None:
        self._call.stop()

    def look(self) -> Deferred[None] | None:
        """Checks once; the Deferred fires when memory was returned."""
        forget_sources()
        forget_burst()
        free, resident = self._allocator.free(), self._allocator.resident()
        self._returned = min(self._returned, free)
        to_return = max(free - self._returned, min(free, self._grown(resident)))
        if to_return < _MIN_BYTES or to_return < resident // _MIN_PART:
            return None
        work: Deferred[None] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self._allocator.trim)
        self._returned = free  # memory that is freed meanwhile is left for the next check
        work.addCallback(self._done, resident)
        return work

    def _grown(self, resident: int) -> int:
        """Bytes by which the process has grown since the last time, without the growth of the memory in use."""
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
