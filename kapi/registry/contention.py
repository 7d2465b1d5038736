"""The queue of those who write one object at the same time.

When all who came too late try again at once, one of them wins and the work of the others is lost: a hundred patches of one
object would be computed five thousand times.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred

from kapi.registry.environment import Timers

_PATIENCE = 1.0  # seconds; the writer ahead may wait for a webhook that does not answer


class Contention:
    """The queues of the objects of one resource."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiting: dict[str, deque[Deferred[Hold]]] = {}  # by the store's key; while somebody has a hold

    async def enter(self, key: str) -> Hold:
        """Waits until the object may be written; the hold has to be released."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
            return Hold(self, key, self._timers)
        called: Deferred[Hold] = Deferred(waiting.remove)
        waiting.append(called)
        return await called

    def pass_on(self, key: str) -> None:
        """Calls the next one."""
        waiting = self._waiting[key]
        if waiting:
            waiting.popleft().callback(Hold(self, key, self._timers))
        else:
            del self._waiting[key]


class Hold:
    """What the writer at the head of a queue has, for a second at most."""

    __slots__ = ("_contention", "_end", "_key")

    def __init__(self, contention: Contention, key: str, timers: Timers) -> None:
        self._contention, self._key = contention, key
        self._end = timers.callLater(_PATIENCE, contention.pass_on, key)

    def release(self) -> None:
        """Lets the next one write, unless it could already."""
        if self._end.active():
            self._end.cancel()
            self._contention.pass_on(self._key)
