"""The work queue of controllers: keys, each handled by one task at a time, by a bounded number of workers.

A key that is added twice is handled once; one that comes while it is handled is handled again; one that failed comes again
later, the later the more often it failed, and all that failed come at a bounded rate (upstream: client-go
``util/workqueue``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from kapi.client.sliced import begin
from kapi.client.work import register
from kapi.client.workqueue_figures import QueueFigures
from kapi.machinery.status import Conflict, StatusError
from kapi.store.errors import StoreUnavailable

FIRST_RETRY, MAX_RETRY_SECONDS = 0.05, 60.0  # seconds
RETRY_RATE, RETRY_BURST = 10.0, 100  # of all keys together; retries a second
MAX_TURN = 0.02  # seconds that keys may be begun in one turn of the reactor
Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """``handle`` runs for ``workers`` keys at once, in slices where ``kapi.client.work`` says so.

    Its errors are logged and the key comes again.

    The number that ``handle`` returns, if any, are the seconds after which the key comes again.
    """

    log = Logger()

    def __init__(
        self,
        reactor: IReactorTime,
        name: str,
        handle: Callable[[Key], Awaitable[float | None]],
        workers: int = 4,
        first_retry: float = FIRST_RETRY,
    ) -> None:
        self._reactor = reactor
        self._name = name
        self._handle = handle
        self._workers = workers
        self._first_retry = first_retry
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()  # keys in _ready
        self._running: dict[Key, Deferred[None] | None] = {}  # None: it has not waited for anything yet
        self._again: set[Key] = set()  # came while running
        self._later: dict[Key, IDelayedCall] = {}
        self._failures: dict[Key, int] = {}
        self._retries = _Bucket(RETRY_RATE, RETRY_BURST)
        self._woken = False
        self._stopped = False
        self._figures = QueueFigures(name, reactor.seconds)
        register(reactor, self)

    def add(self, key: Key) -> None:
        if self._stopped or key in self._waiting:
            return
        if key in self._running:
            self._again.add(key)
            return
        self._waiting.add(key)
        self._ready.append(key)
        self._figures.added(key)
        self._wake()

    def add_after(self, key: Key, seconds: float) -> None:
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
        self._figures.stopped()
        for task in list(self._running.values()):
            if task is not None:
                task.cancel()

    @property
    def idle(self) -> bool:
        """Nothing runs or waits to run at once."""
        return not self._ready and not self._running

    def busy(self, within: float) -> bool:
        """See ``kapi.client.work``."""
        if not self.idle:
            return True
        until = self._reactor.seconds() + within
        return any(call.active() and call.getTime() <= until for call in self._later.values())

    def _due(self, key: Key) -> None:
        self._later.pop(key, None)
        self.add(key)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._reactor.callLater(0, self._work)

    def _work(self) -> None:
        self._woken = False
        end = self._reactor.seconds() + MAX_TURN
        while self._ready and len(self._running) < self._workers and not self._stopped:
            if self._reactor.seconds() > end:
                self._wake()
                return
            key = self._ready.popleft()
            self._waiting.discard(key)
            self._figures.begun(key)
            self._running[key] = None  # what it adds itself, before it waits, comes again as well
            task = begin(self._reactor, self._run(key))
            if not task.called:
                self._running[key] = task
            task.addBoth(self._finished, key)

    async def _run(self, key: Key) -> None:
        try:
            again = await self._handle(key)
        except CancelledError:  # by ``stop``, else of something that the handler waited for
            if not self._stopped:
                self._retry(key)
        except Conflict:  # somebody else was faster, as it must happen now and then: look again
            self._retry(key)
        except StatusError as error:
            self.log.info("{name}: {key}: {message}", name=self._name, key=str(key), message=error.message)
            self._retry(key)
        except StoreUnavailable as error:  # the store says so itself, once for all who wait for it
            self.log.info("{name}: {key}: {message}", name=self._name, key=str(key), message=str(error))
            self._retry(key)
        except Exception:
            self.log.failure("{name}: {key} failed", name=self._name, key=str(key))
            self._retry(key)
        else:
            self._failures.pop(key, None)
            if again is not None:
                self.add_after(key, again)

    def _retry(self, key: Key) -> None:
        self._figures.retried()
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(MAX_RETRY_SECONDS, self._first_retry * 2.0 ** min(failures, 20))
        self.add_after(key, max(delay, self._retries.reserve(self._reactor.seconds())))

    def _finished(self, result: object, key: Key) -> None:
        self._running.pop(key, None)
        self._figures.finished(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif self._ready and not self._stopped:
            self._wake()


class _Bucket:
    """Tokens that come at a rate, up to a burst of them; who finds none waits for the next that nobody has reserved."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._since = float(burst), 0.0

    def reserve(self, now: float) -> float:
        """Takes a token; the seconds until it is there."""
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._rate) - 1
        self._since = now
        return max(0.0, -self._tokens / self._rate)
