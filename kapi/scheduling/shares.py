"""Who is next when there is more work than time: weighted fair queuing of the thread's time (start-time fair queuing).

Priority levels share the thread by their weights, the flows of a level equally, in seconds that were measured and not in
turns.  Each has a virtual time, the work it was given divided by its weight; the one that is least ahead is next.  Who had
less than its share of late goes before the others, but by no more than ``BURST``, and who had more waits, but for no more than
``DEBT``: nobody saves up, and nobody is shut out.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

from kapi.request.flow import Flow, Level, Worker

BURST = 0.01  # seconds of work
DEBT = 0.1  # seconds of work


class Shares:
    """Those who wait for the thread."""

    def __init__(self) -> None:
        self._clock = 0.0
        self._ready: list[Level] = []
        self._added = 0  # equals are served in the order in which they came

    def __bool__(self) -> bool:
        return bool(self._ready)

    def wake(self, flow: Flow) -> None:
        """``flow`` has something to do: what it left unused before is gone, but for the burst."""
        level = flow.level
        start = level.clock - BURST
        if flow.time < start:
            flow.time = start
        start = self._clock - BURST / level.weight
        if level.time < start:
            level.time = start

    def add(self, worker: Worker, flow: Flow) -> None:
        if not flow.workers:
            level = flow.level
            self.wake(flow)
            if not level.ready:
                self._ready.append(level)
            self._added += 1
            heappush(level.ready, (flow.time, self._added, flow))
        flow.workers.append(worker)

    def before(self, flow: Flow, other: Flow) -> bool:
        """Whether ``flow`` would be served earlier than ``other``."""
        if flow.level is other.level:
            return flow.time < other.time
        return flow.level.time < other.level.time

    def ahead_of(self, flow: Flow) -> bool:
        """Whether another flow waits that would be served before ``flow``."""
        level = flow.level
        if level.ready and level.ready[0][2] is not flow and level.ready[0][0] < flow.time:
            return True
        return any(other.time < level.time for other in self._ready)

    def take(self) -> tuple[Worker, Flow]:
        """The next one."""
        level = self._ready[0]
        for other in self._ready:
            if other.time < level.time:
                level = other
        if level.time > self._clock:
            self._clock = level.time
        ready = level.ready
        while True:
            time, _, flow = ready[0]
            if time == flow.time:
                break
            self._added += 1
            heapreplace(ready, (flow.time, self._added, flow))
        if flow.time > level.clock:
            level.clock = flow.time
        worker = flow.workers.popleft()
        if flow.workers:
            self._added += 1
            heapreplace(ready, (flow.time, self._added, flow))
        else:
            heappop(ready)
            if not ready:
                self._ready.remove(level)
        return worker, flow

    def charge(self, flow: Flow, seconds: float) -> None:
        """``flow`` was given so much of the thread's time."""
        level = flow.level
        time, most = flow.time + seconds, level.clock + DEBT
        flow.time = time if time < most else most
        level.clock += seconds / (len(level.ready) + (not flow.workers))  # new flows without end shut nobody out
        time, most = level.time + seconds / level.weight, self._clock + DEBT / level.weight
        level.time = time if time < most else most
