"""What stays for the rest of a run is set aside: a full collection of garbage need not look at it.

Tests make tables when they are first needed (types, documents, parsed definitions), a million objects at the end.  Each
full collection would take half a second to look at them: a third of the processor time of some directories of tests.
"""

from __future__ import annotations

import gc

#: as ``gc.set_threshold`` takes them: what a test makes lives until it ends, so the youngest are looked at when there are
#: 10,000 more, not 700: two thirds of the time
_THRESHOLDS = (10_000, 10, 5)


class SetAside:
    """``begin`` when all tests are imported, ``if_worth_it`` between two files, where little lives that is to go."""

    #: of the middle generation, since the last time: fewer have left nothing worth it
    MIN_COLLECTIONS = 2

    def __init__(self) -> None:
        self._before = 0

    def begin(self) -> None:
        """With what little garbage there is: to look for it would take half a second of each worker."""
        gc.set_threshold(*_THRESHOLDS)
        self._freeze()

    def if_worth_it(self) -> None:
        if self._collections() - self._before >= self.MIN_COLLECTIONS:
            gc.collect()
            self._freeze()

    def _freeze(self) -> None:
        gc.freeze()
        self._before = self._collections()

    @staticmethod
    def _collections() -> int:
        count: int = gc.get_stats()[1]["collections"]
        return count
