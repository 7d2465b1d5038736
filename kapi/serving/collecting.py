"""Decides when Python's garbage collector runs a full collection, so that it does not delay requests (docs/adr/0014).

Left alone, Python begins a full collection in the middle of any code, and traverses the objects of all large bodies of that
moment.  That takes half a second without a checkpoint, and no request is served meanwhile.  The two younger generations are
small and stay with Python.
"""

from __future__ import annotations

import gc
import sys
from time import perf_counter

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.request.repeated import Repeated
from kapi.serving.memory import Allocator

log = Logger()
INTERVAL_SECONDS = 5.0  # between two checks
#: new objects before a collection of the youngest generation (1 ms); such collections before one of the middle generation
#: (15,000 objects, 4 ms); Python never runs a full collection by itself
_THRESHOLDS = (3_000, 5, 1_000_000_000)
#: collections of the middle generation since the last full one: after fewer, a full one finds too little
_MIN_COLLECTIONS = 50
_MAX_NEW_BLOCKS = 200_000  # blocks of memory, half of them objects to traverse: 25 ms, or 50 when all of it is garbage
_MAX_PUT_OFF = 12  # checks in a row that found more: then it is no passing burst, and the objects are frozen
_MAX_KEPT_BLOCKS = 400_000  # so many new blocks are still collected before they are frozen: 50 ms
#: bytes by which the memory in use has changed since the last collection: after a burst there may be garbage, even if the
#: process is idle from then on
_MIN_CHANGED = 8 * 1024 * 1024
_LOGGED_SECONDS = 0.1  # a longer collection is logged


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
        self._whole = 0  # the same, at the last collection that included frozen objects
        self._base = 0  # the fewest blocks since then
        self._put_off = 0  # checks in a row
        self._used = 0  # bytes after the last collection
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

    def _keep(self, new: int) -> None:
        """Freezes the current objects, after a collection if they are few enough; once they have doubled, all are collected."""
        whole = self._frozen >= 2 * self._whole
        if whole:
            self._heap.unfreeze()
        if whole or new <= _MAX_KEPT_BLOCKS:
            self._collect()
        self._freeze()
        if whole:
            self._whole = self._frozen

    def _freeze(self) -> None:
        self._heap.freeze()
        self._frozen = self._base = self._heap.blocks()

    def _collect(self) -> None:
        begun = perf_counter()
        self._heap.collect()
        seconds = perf_counter() - begun
        self._used = self._heap.used()
        if seconds > _LOGGED_SECONDS:
            log.info("Garbage collection took {seconds:.2f} s, and nobody was served meanwhile", seconds=seconds)
