"""Frees large trees in slices once they are not used any more (``kapi/machinery/freeing.py``)."""

from __future__ import annotations

from collections import deque
from threading import get_ident

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.machinery import freeing
from kapi.process.driver import Call

log = Logger()
_INTERVAL_SECONDS = 0.05  # between two checks for unused trees
_MAX_SECONDS = 30.0  # how long a tree is checked
_MAX_TREES = 64  # the most trees that are checked; with more, the oldest is freed as any other object


class Freeing:
    """Keeps trees until they are unused, then frees them in slices; ``call`` runs a function in slices."""

    def __init__(self, reactor: IReactorTime, call: Call) -> None:
        self._reactor = reactor
        self._thread = get_ident()
        self._call = call
        #: (time until which it is checked, a list with the tree as its only item)
        self._trees: deque[tuple[float, list[object]]] = deque()
        self._looking = False
        self._dismantling = 0  # trees

    def busy(self) -> bool:
        """Whether there are trees to free."""
        return bool(self._trees or self._dismantling)

    def install(self) -> None:
        """From now on frees the trees that are passed to ``free_in_steps``."""
        freeing.collector, freeing.busy = self.take, self.busy

    def uninstall(self) -> None:
        """From now on trees are freed as any other objects, also the trees that were kept here."""
        if freeing.collector == self.take:
            freeing.collector = freeing.busy = None
        self._trees.clear()

    def take(self, tree: object) -> None:
        """Keeps a tree that is still in use, to free it later.  A tree of another thread is left to that thread."""
        if get_ident() != self._thread:
            return
        self._trees.append((self._reactor.seconds() + _MAX_SECONDS, [tree]))
        if len(self._trees) > _MAX_TREES:
            self._trees.popleft()
        self._schedule()

    def _schedule(self) -> None:
        if not self._looking and self._trees:
            self._looking = True
            self._reactor.callLater(_INTERVAL_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = False
        now = self._reactor.seconds()
        for _ in range(len(self._trees)):
            until, holder = self._trees.popleft()
            if freeing.is_unused(holder):
                self._dismantling += 1
                work = self._call(freeing.dismantle, holder)
                work.addErrback(lambda failure: log.failure("a tree is freed at once", failure))
                work.addCallback(self._dismantled)
            elif now < until:
                self._trees.append((until, holder))
        self._schedule()

    def _dismantled(self, _: None) -> None:
        self._dismantling -= 1
