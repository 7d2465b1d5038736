"""Where a long computation may be suspended, or ended: pure functions call ``checkpoint`` while they walk a client's data.

Outside a slice (``kapi/scheduling/slices.py``) and on other threads it does nothing.  It stands only where nothing shared is half
changed: whatever else the server does may happen inside the call.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from operator import length_hint
from time import perf_counter
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_ITEMS_PER_CHECKPOINT = 32  # items of a walk between two checkpoints


class Interrupted(BaseException):
    """The computation ends here: ``error`` says why.  No Exception, so that no ``except Exception`` catches it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Slice(Protocol):
    """What a computation runs in."""

    until: float  # seconds of perf_counter

    def pause(self) -> None:
        """Lets others work.  Raises Interrupted."""

    def commit(self) -> None:
        """See ``commit``."""

    def engage(self) -> bool:
        """See ``engage``.  False on another thread."""


#: the slice that runs now, set by the driver alone, and the same when its computation is one that may take long: small ones
#: pay for no more than a look at ``running``
current: Slice | None = None
running: Slice | None = None
LARGE = 16 * 1024  # bytes of a body or a stored object that make a computation one that may take long


def checkpoint() -> None:
    """Others may work now.  Raises Interrupted when the request's time is over or its client gone."""
    if running is not None and perf_counter() > running.until:
        running.pause()


def engage() -> None:
    """This computation may take long: from here on its checkpoints count."""
    global running
    if running is None and current is not None and current.engage():
        running = current


def commit() -> None:
    """From here on the computation changes what others see: it may still be suspended, but not ended.

    Raises Interrupted when it is too late already.
    """
    if current is not None:
        current.commit()


@contextmanager
def in_one_piece() -> Iterator[None]:
    """No checkpoint counts in here: others see all of what is done, or nothing."""
    global current, running
    before = current, running
    current = running = None
    try:
        yield
    finally:
        current, running = before


def steps(items: Iterable[Item], every: int = _ITEMS_PER_CHECKPOINT) -> Iterable[Item]:
    """The items of a client's list or mapping, with a checkpoint after ``every`` so many of them.

    Nobody else may change what is walked.
    """
    if running is None:
        return items
    checkpoint()
    return items if length_hint(items, every + 1) <= every else _stepping(items, every)


def _stepping(items: Iterable[Item], every: int) -> Iterator[Item]:
    left = every
    for item in items:
        yield item
        left -= 1
        if not left:
            left = every
            checkpoint()


class _InSlices:
    def __await__(self) -> Generator[_InSlices, None, None]:
        yield self


#: awaited by what answers a read, when the answer takes long to make: from here on it runs in slices, as writes always do
in_slices = _InSlices()
