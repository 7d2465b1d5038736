"""Bounds the large trees that the requests of one flow have in memory at once.

Computations of one flow that take turns all end late, and each has its tree meanwhile: eight bodies of 2.5 MB took 270 MB.
Such a tree is 200,000 small objects.  Others are allocated among them that stay, and each of these keeps an arena of Python
(1 MiB) after the trees are gone.  So a flow's large texts are decoded one after the other.  Other flows and smaller requests do
not wait.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from kapi.request.flow import Flow

MAX_BYTES = 4 * 1024 * 1024  # of texts whose trees a flow has at once; a single one may be larger
Work = TypeVar("Work")


class _Trees(Generic[Work]):
    """Those of one flow: the bytes of their texts, and what waits with the bytes of its text."""

    __slots__ = ("bytes", "waiting")

    def __init__(self) -> None:
        self.bytes = 0
        self.waiting: deque[tuple[Work, int]] = deque()

    def take(self, size: int) -> bool:
        fits = not self.bytes or self.bytes + size <= MAX_BYTES
        if fits:
            self.bytes += size
        return fits


class LargeTrees(Generic[Work]):
    """Each ``begin`` that allowed the work to go on, and each work that ``end`` returned, is followed by an ``end``."""

    def __init__(self) -> None:
        self._flows: WeakKeyDictionary[Flow, _Trees[Work]] = WeakKeyDictionary()

    def begin(self, flow: Flow, work: Work, size: int) -> bool:
        """Whether ``work`` may make a tree of ``size`` bytes of text now.  Otherwise a later ``end`` returns it."""
        trees = self._flows.get(flow)
        if trees is None:
            trees = self._flows[flow] = _Trees()
        if not trees.waiting and trees.take(size):
            return True
        trees.waiting.append((work, size))
        return False

    def is_awaited(self, flow: Flow) -> bool:
        """Whether work waits for the end of other trees."""
        trees = self._flows.get(flow)
        return trees is not None and bool(trees.waiting)

    def end(self, flow: Flow, size: int) -> list[Work]:
        """A tree of ``size`` bytes is gone.  Returns the work that may go on now."""
        trees = self._flows[flow]
        trees.bytes -= size
        found: list[Work] = []
        while trees.waiting and trees.take(trees.waiting[0][1]):
            found.append(trees.waiting.popleft()[0])
        return found
