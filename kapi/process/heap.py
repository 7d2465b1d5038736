"""The heap of the process: when garbage is collected, and when free memory returns to the system.

**Collector** runs full collections in place of Python (docs/adr/0014).  Left alone, Python begins a full collection in the middle
of any code, and traverses the objects of all large bodies of that moment.  That takes half a second without a checkpoint, and no
request is served meanwhile.  The two younger generations are small and stay with Python.

**MemoryReturn** returns free memory to the system after a burst.  glibc does not return free pages in the middle of its heap by
itself: after a hundred clients that did not read, a gigabyte stayed.  So every few seconds the free memory is checked, and
returned by ``malloc_trim``, in a thread.  This happens when much more is free than after the last time, or when the process has
grown much more than the memory in use.  The latter shows a burst that has come and gone between two checks: as much is free as
before, but it was not returned.  Blocks of some 100 kB, the size of parts of answers, are taken from the heap.  To get each of
them from the system would cost more than to fill it.  glibc adapts to this only after a process has freed a large block.
"""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
import sys
from time import perf_counter

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from kapi.machinery.memo import forget_burst
from kapi.process.reactor import Reactor
from kapi.process.timers import Repeated

log = Logger()
INTERVAL_SECONDS = 5.0  # between two checks
_MIN_BYTES = 8 * 1024 * 1024  # a smaller amount is not returned
_MIN_PART = 20  # nor an amount below a twentieth of the process
_MAX_HEAP_BLOCK_BYTES = 1024 * 1024  # larger blocks are mapped from the system one by one
_MAX_HEAP_END_BYTES = 2 * 1024 * 1024  # free memory that stays at the end of the heap
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # parameters of mallopt, from malloc.h
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
#: new objects before a collection of the youngest generation (1 ms); such collections before one of the middle generation
#: (15,000 objects, 4 ms); Python never runs a full collection by itself
_THRESHOLDS = (3_000, 5, 1_000_000_000)
#: collections of the middle generation between two full ones: after fewer, a full collection finds too little
_MIN_COLLECTIONS = 50
_MAX_NEW_BLOCKS = 200_000  # blocks of memory, half of them objects to traverse: 25 ms, or 50 when all of it is garbage
# checks in a row that found more new blocks: after these it is no short burst, and the objects are frozen
_MAX_PUT_OFF = 12
_MAX_KEPT_BLOCKS = 400_000  # with more new blocks, they are frozen without a collection: it would take over 50 ms
#: bytes by which the memory in use has changed since the last collection: after a burst there may be garbage, even if the
#: process is idle from then on
_MIN_CHANGED = 8 * 1024 * 1024
_LOGGED_SECONDS = 0.1  # a longer collection is logged


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
        """Resident bytes of the process; 0 where the system does not tell, as macOS, which has no ``malloc_trim`` either."""
        try:
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * _PAGE
        except OSError:
            return 0

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
        if (
            len(cached) > 1 and cached[1] is not None
        ):  # the file's time: generated source has none, and cannot be read again
            linecache.cache.pop(name, None)


class MemoryReturn:
    """Checks every few seconds whether memory should be returned."""

    def __init__(self, reactor: Reactor, allocator: Allocator | None = None) -> None:
        self._reactor = reactor
        self._allocator = Allocator() if allocator is None else allocator
        self._returned = 0  # free bytes after the last return: these were returned, or could not be
        self._after: tuple[int, int] | None = None  # resident and used bytes after the last return
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
        """Bytes by which the process has grown since the last return, without the growth of the memory in use."""
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


class Heap:
    """The interpreter's heap and collector."""

    def __init__(self) -> None:
        self._allocator = Allocator()

    def take_over(self) -> None:
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()

    def collections(self) -> int:
        """Collections of the middle generation since the last full one."""
        return gc.get_count()[2]

    def blocks(self) -> int:
        """Blocks of memory in use.  Not all are objects that the collector traverses; to count those takes too long."""
        return sys.getallocatedblocks()

    def used(self) -> int:
        """Bytes in use in glibc's heap, that is of large objects."""
        return self._allocator.used()

    def collect(self) -> None:
        gc.collect()

    def freeze(self) -> None:
        """Excludes all current objects from collections.  To count them would take 40 ms."""
        gc.freeze()

    def unfreeze(self) -> None:
        gc.unfreeze()


class Collector:
    """Runs full collections in place of Python, from ``start`` on.

    Objects that exist at the start are excluded without a collection, which would take 80 ms to find some 10,000 small objects.
    """

    def __init__(self, reactor: IReactorTime, heap: Heap | None = None) -> None:
        self._heap = Heap() if heap is None else heap
        self._frozen = 0  # blocks when objects were frozen for the last time
        self._whole = 0  # blocks at the last collection that included frozen objects
        self._base = 0  # the fewest blocks since the last freezing
        self._put_off = 0  # checks in a row
        self._used = 0  # bytes after the last collection
        self._expected = 0  # expected blocks of garbage in cycles, which only a collection frees
        self._kept_some = False  # objects that were made after the start are frozen, and may be garbage
        self._call = Repeated(self.look, reactor, "collecting garbage")

    def start(self) -> None:
        self._freeze()  # first: else Python would collect everything that was made while collection was off
        self._heap.take_over()
        self._whole = self._frozen
        self._used = self._heap.used()
        self._call.start(INTERVAL_SECONDS)

    def stop(self) -> None:
        self._call.stop()

    def look(self) -> None:
        """Collects if there may be enough garbage and few objects have to be traversed."""
        heap = self._heap
        if heap.collections() < _MIN_COLLECTIONS and abs(heap.used() - self._used) < _MIN_CHANGED:
            return
        blocks = heap.blocks()
        self._base = min(self._base, blocks)  # large bodies that were frozen may be freed since
        new = blocks - self._base
        self._put_off = 0 if new <= _MAX_NEW_BLOCKS else self._put_off + 1
        if new <= _MAX_NEW_BLOCKS:
            self._collect()
        elif self._put_off == _MAX_PUT_OFF:
            self._put_off = 0
            self._keep(new)

    def expect(self, blocks: int) -> None:
        """Announces garbage in cycles; collects when there is much of it, even if many objects have to be traversed.

        Without this call the garbage would count as new objects, which postpone collections, and would be frozen in the end.
        """
        self._expected += blocks
        if self._expected > _MAX_NEW_BLOCKS:
            if self._kept_some:
                self._collect_whole()
            else:
                self._collect()

    def _keep(self, new: int) -> None:
        """Freezes the current objects, after a collection if they are few enough; once they have doubled, all are collected."""
        self._kept_some = True
        if self._frozen >= 2 * self._whole:
            self._collect_whole()
            return
        if new <= _MAX_KEPT_BLOCKS:
            self._collect()
        self._freeze()

    def _collect_whole(self) -> None:
        """Collects all objects, and freezes what is left."""
        self._heap.unfreeze()
        self._collect()
        self._freeze()
        self._whole = self._frozen

    def _freeze(self) -> None:
        self._heap.freeze()
        self._frozen = self._base = self._heap.blocks()

    def _collect(self) -> None:
        begun = perf_counter()
        self._heap.collect()
        seconds = perf_counter() - begun
        self._used = self._heap.used()
        self._expected = 0
        if seconds > _LOGGED_SECONDS:
            log.info("Garbage collection took {seconds:.2f} s, and nobody was served meanwhile", seconds=seconds)
