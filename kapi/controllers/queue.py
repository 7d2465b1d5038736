"""What controllers work off: keys, each handled by one task at a time.

A key that comes while it is handled is handled again; one that failed comes again later (upstream: client-go
``util/workqueue``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.machinery.status import Conflict, StatusError

_FIRST_RETRY, _LONGEST_RETRY = 0.05, 60.0
#: handles a key; the number it returns, if any, are the seconds after which the key comes again
Handler = Callable[[str], Awaitable["float | None"]]


class WorkQueue:
    """``handle`` runs for ``workers`` keys at once.  Its errors are logged and the key comes again."""

    log = Logger()

    def __init__(self, reactor: IReactorTime, name: str, handle: Handler, workers: int = 4) -> None:
        self._reactor = reactor
        self._name = name
        self._handle = handle
        self._workers = workers
        self._ready: deque[str] = deque()
        self._waiting: set[str] = set()  # keys in _ready
        self._running: dict[str, Deferred[None]] = {}
        self._again: set[str] = set()  # came while running
        self._later: dict[str, Any] = {}
        self._failures: dict[str, int] = {}
        self._woken = False
        self._stopped = False

    def add(self, key: str) -> None:
        if self._stopped or key in self._waiting:
            return
        if key in self._running:
            self._again.add(key)
            return
        self._waiting.add(key)
        self._ready.append(key)
        if not self._woken:
            self._woken = True
            self._reactor.callLater(0, self._work)

    def add_after(self, key: str, seconds: float) -> None:
        """An earlier time for the same key wins."""
        if self._stopped:
            return
        call = self._later.get(key)
        if call is not None and call.active():
            if call.getTime() <= self._reactor.seconds() + seconds:
                return
            call.cancel()
        self._later[key] = self._reactor.callLater(seconds, self._due, key)

    def stop(self) -> None:
        self._stopped = True
        for call in self._later.values():
            if call.active():
                call.cancel()
        self._later.clear()
        self._ready.clear()
        self._waiting.clear()
        for task in list(self._running.values()):
            task.cancel()

    @property
    def idle(self) -> bool:
        """Nothing runs or waits to run at once."""
        return not self._ready and not self._running

    def _due(self, key: str) -> None:
        self._later.pop(key, None)
        self.add(key)

    def _work(self) -> None:
        self._woken = False
        while self._ready and len(self._running) < self._workers and not self._stopped:
            key = self._ready.popleft()
            self._waiting.discard(key)
            task = Deferred.fromCoroutine(self._run(key))
            if not task.called:
                self._running[key] = task
                task.addBoth(self._finished, key)

    async def _run(self, key: str) -> None:
        try:
            again = await self._handle(key)
        except CancelledError:
            return
        except Conflict:  # somebody else was faster, as it must happen now and then: look again
            self._retry(key)
        except StatusError as error:
            self.log.info("{name}: {key}: {message}", name=self._name, key=key, message=error.message)
            self._retry(key)
        except Exception:
            self.log.failure("{name}: {key} failed", name=self._name, key=key)
            self._retry(key)
        else:
            self._failures.pop(key, None)
            if again is not None:
                self.add_after(key, again)

    def _retry(self, key: str) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, min(_LONGEST_RETRY, _FIRST_RETRY * 2.0 ** min(failures, 20)))

    def _finished(self, result: Any, key: str) -> None:
        self._running.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif self._ready and not self._woken and not self._stopped:
            self._woken = True
            self._reactor.callLater(0, self._work)
