"""How long the reactor was busy without looking at its sockets: meanwhile nobody is served.

Each turn is measured between two polls, and a poll gives a bounded number of sockets: the others are in the next ones, as the
kernel goes round.  What takes long is counted, and of what takes very long one line is logged, with the
request and the stack as another thread saw them; the thread looks four times a second.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from time import perf_counter
from types import FrameType
from typing import Any

from prometheus_client.core import HistogramMetricFamily, Metric
from twisted.logger import Logger

from kapi.request.context import RequestContext
from kapi.server.request_metrics import Histogram

log = Logger()
COUNTED = 0.01  # seconds: shorter turns are no stalls
LOGGED = 0.25  # seconds
_LOG_INTERVAL_SECONDS = 10.0  # seconds between two lines in the log
_BOUNDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MAX_SOCKETS = 128  # that one poll gives: a thousand connections that end at once would make a turn of 50 ms
_MAX_FRAMES = 25  # innermost frames of a stack that are logged


class StallMonitor:
    """A prometheus collector.  ``install`` begins to measure; ``timer`` gives seconds."""

    def __init__(self, timer: Callable[[], float] = perf_counter) -> None:
        self.turns = Histogram(_BOUNDS)
        self.busy_since = 0.0  # 0 while the reactor waits for something to do
        self._timer = timer
        self._seen: tuple[float, str, str] | None = None  # since when, the request, the stack
        self._logged = float("-inf")
        self._unlogged = 0
        self._stopped = threading.Event()
        self._reactor_thread = 0

    def install(self, reactor: Any) -> None:
        """Measures this reactor, if it is one that can be measured, from its own thread."""
        poller = getattr(reactor, "_poller", None)
        if poller is None:
            return
        reactor._poller = _Measured(poller, self)
        self._reactor_thread = threading.get_ident()
        threading.Thread(target=self._watch, name="stalls", daemon=True).start()
        reactor.addSystemEventTrigger("after", "shutdown", self._stopped.set)

    def ended(self, now: float) -> None:
        """The turn is over."""
        since, self.busy_since = self.busy_since, 0.0
        seconds = now - since
        if seconds < COUNTED or not since:
            return
        self.turns.observe(seconds)
        seen, self._seen = self._seen, None
        if seconds < LOGGED:
            return
        if now - self._logged < _LOG_INTERVAL_SECONDS:
            self._unlogged += 1
            return
        request, stack = ("unknown", "") if seen is None or seen[0] != since else seen[1:]
        log.warn(
            "The reactor was busy for {seconds:.2f} s without serving anybody; request: {request}; not logged: {more}\n{stack}",
            seconds=seconds,
            request=request,
            more=self._unlogged,
            stack=stack,
        )
        self._logged, self._unlogged = now, 0

    def look(self, stack: Callable[[], FrameType | None]) -> float:
        """Notes what the reactor does when it has done it for too long.  Seconds until the next look."""
        since = self.busy_since
        if not since or self._seen is not None and self._seen[0] == since:
            return LOGGED
        left = since + LOGGED - self._timer()
        if left > 0:
            return left
        frame = stack()
        if frame is not None and self.busy_since == since:
            self._seen = since, _request_of(frame), "".join(traceback.format_stack(frame)[-_MAX_FRAMES:])
        return LOGGED

    def _watch(self) -> None:
        pause = LOGGED
        while not self._stopped.wait(pause):
            pause = self.look(lambda: sys._current_frames().get(self._reactor_thread))

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(
            "kapi_reactor_stall_seconds",
            "Turns of the reactor that took over 10 ms, during which nothing else was served.",
            labels=[],
        )
        family.add_metric([], self.turns.buckets(), self.turns.total)
        yield family


class _Measured:
    """The epoll object of Twisted's reactor (its private name ``_poller``), between whose calls the reactor is busy."""

    def __init__(self, poller: Any, monitor: StallMonitor) -> None:
        self._poll = poller.poll
        self.register, self.modify, self.unregister = poller.register, poller.modify, poller.unregister
        self._monitor = monitor

    def poll(self, timeout: float, events: int) -> Any:
        monitor = self._monitor
        now = perf_counter()
        if now - monitor.busy_since >= COUNTED:
            monitor.ended(now)
        monitor.busy_since = 0.0
        try:
            return self._poll(timeout, min(events, MAX_SOCKETS))
        finally:
            monitor.busy_since = perf_counter()


def _request_of(frame: FrameType) -> str:
    """The request that a stack belongs to: no part of it but what the log of requests shows."""
    at: FrameType | None = frame
    while at is not None:
        ctx = at.f_locals.get("ctx") if "ctx" in at.f_code.co_varnames else None
        if isinstance(ctx, RequestContext):
            return f"{ctx.method} {ctx.path} (audit id {ctx.audit_id})"
        at = at.f_back
    return "none"
