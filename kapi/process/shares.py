"""Which flow is next when there is more work than time: start-time fair queuing of the thread's time.

A flow is the requests that count together (upstream: ``util/flowcontrol``, FlowDistinguisherMethod).  Priority levels share the
thread by their weights, and the flows of a level share it equally.  What counts is measured seconds.  The time of a level or flow
is what it has used; the one with the least is next.  Time that it did not use is lost: when it has work again, its time is at
least the time of a flow that is never delayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush, heapreplace

Work = Callable[[], object]


class Level:
    """A priority level's share of the thread's time; ``weight`` is relative to the other levels."""

    __slots__ = ("flow_time", "name", "ready", "time", "weight")

    def __init__(self, name: str, weight: float = 1.0) -> None:
        self.name = name
        self.weight = weight
        self.time = 0.0  # seconds of work divided by the weight
        self.flow_time = 0.0  # virtual time of a flow of this level that is never delayed
        self.ready: list[tuple[float, int, Flow]] = []  # a heap of waiting flows by a time that may be outdated


class Flow:
    """The requests that a flow schema counts together, such as those of one user."""

    __slots__ = ("__weakref__", "level", "time", "waiting")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.time = level.flow_time  # seconds of work
        self.waiting: deque[Work] = deque()


# the most that one piece of work counts: a longer one was held up, for example by the garbage collector
MAX_SECONDS = 0.01


class Shares:
    """The flows that wait for the thread, with their work."""

    def __init__(self) -> None:
        self._time = 0.0  # time of the level that was served last
        self._ready: list[Level] = []
        self._added = 0  # flows with equal times are served in their order of arrival

    def __bool__(self) -> bool:
        return bool(self._ready)

    def wake(self, flow: Flow) -> None:
        """``flow`` has work again."""
        level = flow.level
        if flow.time < level.flow_time:
            flow.time = level.flow_time
        if level.time < self._time:
            level.time = self._time

    def add(self, work: Work, flow: Flow) -> None:
        if not flow.waiting:
            level = flow.level
            self.wake(flow)
            if not level.ready:
                self._ready.append(level)
            self._added += 1
            heappush(level.ready, (flow.time, self._added, flow))
        flow.waiting.append(work)

    def take(self) -> tuple[Work, Flow]:
        """Removes and returns the next work, with its flow."""
        level = self._ready[0]
        for other in self._ready:
            if other.time < level.time:
                level = other
        ready = level.ready
        while ready[0][0] != ready[0][2].time:
            self._requeue(ready)
        flow = ready[0][2]
        self.serve(flow)
        work = flow.waiting.popleft()
        if flow.waiting:
            self._requeue(ready)
        else:
            heappop(ready)
            if not ready:
                self._ready.remove(level)
        return work, flow

    def _requeue(self, ready: list[tuple[float, int, Flow]]) -> None:
        """Moves the first flow behind the flows with the same time."""
        flow = ready[0][2]
        self._added += 1
        heapreplace(ready, (flow.time, self._added, flow))

    def serve(self, flow: Flow) -> None:
        """``flow`` is served now."""
        level = flow.level
        self._time, level.flow_time = max(self._time, level.time), max(level.flow_time, flow.time)

    def charge(self, flow: Flow, seconds: float) -> None:
        """Counts ``seconds`` of the thread's time for ``flow``."""
        level, seconds = flow.level, min(seconds, MAX_SECONDS)
        flow.time += seconds
        level.flow_time += seconds / (
            len(level.ready) + (not flow.waiting)
        )  # a stream of new flows cannot shut out older flows
        level.time += seconds / level.weight
