"""Frees large trees in slices once nobody uses them any more (``kapi/machinery/freeing.py``)."""

from __future__ import annotations

from collections import deque

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.machinery import freeing
from kapi.request.call import Call

log = Logger()
_INTERVAL_SECONDS = 0.05  # seconds between two looks at what is still in use
_MAX_SECONDS = 30.0  # seconds that a tree is kept in view
_MAX_TREES = 64  # in view at a time; of more, the oldest goes as any other object


class Freeing:
    """``call`` runs what takes long."""

    def __init__(self, reactor: IReactorTime, call: Call) -> None:
        self._reactor = reactor
        self._call = call
        #: until when it is in view, and the tree alone in a list
        self._trees: deque[tuple[float, list[object]]] = deque()
        self._looking = False

    def install(self) -> None:
        """Takes what the process wants to let go."""
        freeing.taker = self.take

    def uninstall(self) -> None:
        """What is freed from now on goes as any other object, and what is in view with it."""
        if freeing.taker == self.take:
            freeing.taker = None
        self._trees.clear()

    def take(self, tree: object) -> None:
        """It is in use, and goes when it is not."""
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
                work = self._call(freeing.dismantle, holder)
                work.addErrback(lambda failure: log.failure("a tree is freed at once", failure))
            elif now < until:
                self._trees.append((until, holder))
        self._schedule()
