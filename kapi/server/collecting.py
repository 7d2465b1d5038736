"""When Python's garbage collector looks at everything: at times of our own, and when that holds nobody up.

By itself it begins in the middle of whatever runs, with all that large bodies are made of just then: half a second, in which
nobody is served, that no checkpoint divides (docs/adr/0014).  The two younger generations are small and stay with Python.
"""

from __future__ import annotations

import gc
import sys
from time import perf_counter

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.request.repeated import Repeated
from kapi.server.memory import Allocator

log = Logger()
EVERY = 5.0  # seconds between two looks
#: new objects until Python looks at those (1 ms), and how often until at those that survived that (15,000; 4 ms): everybody
#: waits meanwhile.  It never looks at everything by itself
_THRESHOLDS = (3_000, 5, 1_000_000_000)
#: collections of the middle generation since the last of everything: fewer have left nothing worth a look
_MIN_COLLECTIONS = 50
_MAX_NEW_BLOCKS = 200_000  # blocks of memory, half of them objects to look at: 25 ms, and 50 when all of it is garbage
_MAX_PUT_OFF = 12  # looks at which there were more: no bodies on their way, but what has come to stay
_MAX_KEPT_BLOCKS = 400_000  # new blocks that are still looked at before they are kept: 50 ms
#: bytes by which what is in use has changed since the last collection: a burst has come or gone, and may have left garbage in a
#: process that does nothing else from then on
_MIN_CHANGED = 8 * 1024 * 1024
_LOGGED_SECONDS = 0.1  # seconds


class Heap:
    """What Python has."""

    def __init__(self) -> None:
        self._allocator = Allocator()

    def take_over(self) -> None:
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()

    def collections(self) -> int:
        """Of the middle generation, since the last one of everything."""
        return gc.get_count()[2]

    def blocks(self) -> int:
        """Pieces of memory in use, objects that the collector need not look at among them.  Counting those takes too long."""
        return sys.getallocatedblocks()

    def used(self) -> int:
        """Bytes in use, those of large objects."""
        return self._allocator.used()

    def collect(self) -> None:
        gc.collect()

    def freeze(self) -> None:
        """What there is now is not looked at again.  Counting it would take 40 ms."""
        gc.freeze()

    def unfreeze(self) -> None:
        gc.unfreeze()


class Collector:
    """``start`` takes the collections of everything from Python.

    What was made until then stays and need not be looked at, not even once: it would take 80 ms to find some 10,000 small
    objects that were left behind.
    """

    def __init__(self, reactor: IReactorTime, heap: Heap | None = None) -> None:
        self._heap = Heap() if heap is None else heap
        self._frozen = 0  # blocks when objects were frozen for the last time
        self._whole = 0  # the same, when all of them were looked at
        self._base = 0  # the fewest blocks since then
        self._put_off = 0  # looks in a row
        self._used = 0  # bytes after the last collection
        self._call = Repeated(self.look, reactor, "collecting garbage")

    def start(self) -> None:
        self._freeze()  # before: with what was made while Python did not collect it would look at everything now
        self._heap.take_over()
        self._whole = self._frozen
        self._used = self._heap.used()
        self._call.start(EVERY)

    def stop(self) -> None:
        self._call.stop()

    def look(self) -> None:
        """Collects if there may be enough garbage, and little that has to be looked at for it."""
        heap = self._heap
        if heap.collections() < _MIN_COLLECTIONS and abs(heap.used() - self._used) < _MIN_CHANGED:
            return
        blocks = heap.blocks()
        self._base = min(self._base, blocks)  # what was frozen with large bodies is less since these have gone
        new = blocks - self._base
        self._put_off = 0 if new <= _MAX_NEW_BLOCKS else self._put_off + 1
        if new <= _MAX_NEW_BLOCKS:
            self._collect()
        elif self._put_off == _MAX_PUT_OFF:
            self._put_off = 0
            self._keep(new)

    def _keep(self, new: int) -> None:
        """Freezes what is there, looked at once more if it is not too much; all is looked at whenever it has doubled."""
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
