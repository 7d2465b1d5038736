"""Which flow is next when there is more work than time: start-time fair queuing of the thread's time.

Priority levels share the thread by their weights, and the flows of a level share it equally.  What counts is measured seconds,
not turns.  Each level and flow has a virtual time: the seconds it was given, divided by its weight.  The lowest is next.
One that had less than its share recently goes first, by at most ``MAX_BURST_SECONDS``, so that none saves up time.  One that
had more waits, for at most ``MAX_DEBT_SECONDS``, so that none is shut out.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

from kapi.request.flow import Flow, Level, Worker

MAX_BURST_SECONDS = 0.01  # seconds of work
MAX_DEBT_SECONDS = 0.1  # seconds of work


class Shares:
    """The flows that wait for the thread, with their workers."""

    def __init__(self) -> None:
        self._virtual_time = 0.0
        self._ready: list[Level] = []
        self._added = 0  # equals are served in the order in which they came

    def __bool__(self) -> bool:
        return bool(self._ready)

    def wake(self, flow: Flow) -> None:
        """``flow`` has work again: time that it did not use before is lost, except for the burst."""
        level = flow.level
        start = level.flow_virtual_time - MAX_BURST_SECONDS
        if flow.virtual_time < start:
            flow.virtual_time = start
        start = self._virtual_time - MAX_BURST_SECONDS / level.weight
        if level.virtual_time < start:
            level.virtual_time = start

    def add(self, worker: Worker, flow: Flow) -> None:
        if not flow.workers:
            level = flow.level
            self.wake(flow)
            if not level.ready:
                self._ready.append(level)
            self._added += 1
            heappush(level.ready, (flow.virtual_time, self._added, flow))
        flow.workers.append(worker)

    def before(self, flow: Flow, other: Flow) -> bool:
        """Whether ``flow`` would be served earlier than ``other``."""
        if flow.level is other.level:
            return flow.virtual_time < other.virtual_time
        return flow.level.virtual_time < other.level.virtual_time

    def ahead_of(self, flow: Flow) -> bool:
        """Whether another flow waits that would be served before ``flow``."""
        level = flow.level
        if level.ready and level.ready[0][2] is not flow and level.ready[0][0] < flow.virtual_time:
            return True
        return any(other.virtual_time < level.virtual_time for other in self._ready)

    def take(self) -> tuple[Worker, Flow]:
        """Removes and returns the next worker, with its flow."""
        level = self._ready[0]
        for other in self._ready:
            if other.virtual_time < level.virtual_time:
                level = other
        if level.virtual_time > self._virtual_time:
            self._virtual_time = level.virtual_time
        ready = level.ready
        while True:
            time, _, flow = ready[0]
            if time == flow.virtual_time:
                break
            self._added += 1
            heapreplace(ready, (flow.virtual_time, self._added, flow))
        if flow.virtual_time > level.flow_virtual_time:
            level.flow_virtual_time = flow.virtual_time
        worker = flow.workers.popleft()
        if flow.workers:
            self._added += 1
            heapreplace(ready, (flow.virtual_time, self._added, flow))
        else:
            heappop(ready)
            if not ready:
                self._ready.remove(level)
        return worker, flow

    def charge(self, flow: Flow, seconds: float) -> None:
        """Counts ``seconds`` of the thread's time for ``flow``."""
        level = flow.level
        time, most = flow.virtual_time + seconds, level.flow_virtual_time + MAX_DEBT_SECONDS
        flow.virtual_time = time if time < most else most
        level.flow_virtual_time += seconds / (
            len(level.ready) + (not flow.workers)
        )  # an endless row of new flows shuts out no other
        time, most = level.virtual_time + seconds / level.weight, self._virtual_time + MAX_DEBT_SECONDS / level.weight
        level.virtual_time = time if time < most else most
