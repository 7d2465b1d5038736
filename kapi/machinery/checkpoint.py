"""Points where a long computation may pause or end: pure functions call ``checkpoint`` while they walk a client's data.

Outside a slice (``kapi/process/slices.py``) and on other threads a checkpoint does nothing.  Any other work of the server may
run inside the call, so do not call it while shared data is partly changed.
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
    """Ends the computation because of ``error``.  A BaseException, so that no ``except Exception`` catches it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Slice(Protocol):
    """The slice in which a computation runs: its interface for checkpoints."""

    until: float  # end of the slice, in seconds of perf_counter

    def pause(self) -> None:
        """Lets other work run.  Raises Interrupted."""

    def commit(self) -> None:
        """See ``commit``."""

    def engage(self) -> bool:
        """See ``engage``.  False on another thread."""

    def expect_tree(self, size: int) -> None:
        """See ``expect_tree``.  Raises Interrupted."""


#: the slice that runs now; only the driver sets it
current: Slice | None = None
#: the same slice, once its computation may take long (``engage``).  In small computations a checkpoint costs one comparison.
running: Slice | None = None
LARGE = 16 * 1024  # bytes of a body or a stored object from which a computation may take long
_LARGE_TREE = 256 * 1024  # bytes of a text; each flow may have only few trees of such texts at once


def checkpoint() -> None:
    """Lets other work run when the slice is over.  Raises Interrupted after the request's deadline or without a client."""
    if running is not None and perf_counter() > running.until:
        running.pause()


def engage() -> None:
    """Declares that this computation may take long: from here on its checkpoints take effect."""
    global running
    if running is None and current is not None and current.engage():
        running = current


def expect_tree(size: int) -> None:
    """A checkpoint before a text of ``size`` bytes becomes a tree; for a large text it waits until its flow has few trees."""
    if running is not None and size >= _LARGE_TREE:
        running.expect_tree(size)


def commit() -> None:
    """Declares that the computation now changes shared state: it may still pause, but not be ended.

    Raises Interrupted when the deadline has passed.
    """
    if current is not None:
        current.commit()


@contextmanager
def in_one_piece() -> Iterator[None]:
    """A context in which checkpoints have no effect, so that other work sees all of its changes or none."""
    global current, running
    before = current, running
    current = running = None
    try:
        yield
    finally:
        current, running = before


def steps(items: Iterable[Item], every: int = _ITEMS_PER_CHECKPOINT) -> Iterable[Item]:
    """The items of a client's list or mapping, with a checkpoint after each ``every`` items.

    Other code must not change the collection meanwhile.
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
        engage()  # the computation began as a small write, or before a wait


#: the handler of a read awaits it before long work, to continue in slices; writes always run in slices
in_slices = _InSlices()
