"""Measures how long the reactor was busy without polling its sockets; no request is served meanwhile.

Each turn is measured between two polls.  A poll returns a bounded number of sockets; the kernel returns the others with the next
polls.  Long turns are counted.  Very long turns are logged, with the request and the stack that another thread saw.  This thread
samples four times a second; turns that it has not seen are only counted.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from time import perf_counter
from types import FrameType
from typing import Any

from prometheus_client.core import Metric
from twisted.logger import Logger

from kapi.machinery.meters import metric_family
from kapi.observability.request_metrics import Histogram
from kapi.process.reactor import watch_polls
from kapi.request.context import RequestContext

log = Logger()
MIN_STALL_SECONDS = 0.01  # shorter turns are not counted
MIN_LOGGED_SECONDS = 0.25  # shorter turns are not logged
_LOG_INTERVAL_SECONDS = 10.0  # between two log lines
_BOUNDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_MAX_FRAMES = 25  # innermost frames of a logged stack


class StallMonitor:
    """A prometheus collector.  ``install`` begins to measure; ``timer`` returns seconds."""

    shortest = MIN_STALL_SECONDS

    def __init__(self, timer: Callable[[], float] = perf_counter) -> None:
        self.turns = Histogram(_BOUNDS)
        self.busy_since = 0.0  # 0 while the reactor waits for events
        self.timer = timer
        self._seen: tuple[float, str, str] | None = None  # (busy since, request, stack)
        self._logged = float("-inf")
        self._unlogged = 0
        self._stopped = threading.Event()
        self._reactor_thread = 0

    def install(self, reactor: Any) -> None:
        """Measures the reactor (not one of select); called in the reactor's thread.

        Where no thread can be started, requests and stacks of long turns stay unknown.
        """
        if not watch_polls(reactor, self):
            return
        self._reactor_thread = threading.get_ident()
        try:
            threading.Thread(target=self._watch, name="stalls", daemon=True).start()
        except RuntimeError as error:  # no more threads: the limit of processes also counts threads
            log.warn("the stacks of long turns will not be known: {error}", error=error)
        reactor.addSystemEventTrigger("after", "shutdown", self._stopped.set)

    def ended(self, now: float) -> None:
        """Called at the end of a turn."""
        since, self.busy_since = self.busy_since, 0.0
        seconds = now - since
        if seconds < MIN_STALL_SECONDS or not since:
            return
        self.turns.observe(seconds)
        seen, self._seen = self._seen, None
        if seconds < MIN_LOGGED_SECONDS:
            return
        if seen is None or seen[0] != since or now - self._logged < _LOG_INTERVAL_SECONDS:
            self._unlogged += 1  # a line without request and code would not help
            return
        _, request, stack = seen
        log.warn(
            "The reactor was busy for {seconds:.2f} s without serving anybody; request: {request}; not logged: {more}\n{stack}",
            seconds=seconds,
            request=request,
            more=self._unlogged,
            stack=stack,
        )
        self._logged, self._unlogged = now, 0

    def look(self, stack: Callable[[], FrameType | None]) -> float:
        """Records request and stack when the turn lasts too long.  Returns the seconds until the next call."""
        since = self.busy_since
        if not since or self._seen is not None and self._seen[0] == since:
            return MIN_LOGGED_SECONDS
        left = since + MIN_LOGGED_SECONDS - self.timer()
        if left > 0:
            return left
        frame = stack()
        if frame is not None and self.busy_since == since:
            self._seen = since, _request_of(frame), "".join(traceback.format_stack(frame)[-_MAX_FRAMES:])
        return MIN_LOGGED_SECONDS

    def _watch(self) -> None:
        pause = MIN_LOGGED_SECONDS
        while not self._stopped.wait(pause):
            pause = self.look(lambda: sys._current_frames().get(self._reactor_thread))

    def collect(self) -> Iterator[Metric]:
        family = metric_family("kapi_reactor_stall_seconds")
        family.add_metric([], self.turns.buckets(), self.turns.total)
        yield family


def _request_of(frame: FrameType) -> str:
    """A description of the request that a stack belongs to, with the same fields as the request log."""
    at: FrameType | None = frame
    while at is not None:
        ctx = at.f_locals.get("ctx") if "ctx" in at.f_code.co_varnames else None
        if isinstance(ctx, RequestContext):
            return f"{ctx.method} {ctx.path} (audit id {ctx.audit_id})"
        at = at.f_back
    return "none"
