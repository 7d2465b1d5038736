"""The work queue of controllers: keys, each handled by one task at a time, by a bounded number of workers.

* A key that is added twice is handled once.
* A key that is added while it is handled is handled again afterwards.
* A key that failed is handled again after a delay, which doubles with each failure; all retries together have a bounded rate.

Upstream: client-go ``util/workqueue``, component-base ``metrics/prometheus/workqueue``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Generic, TypeVar
from weakref import WeakSet

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from kapi.client.limiter import TokenBucket
from kapi.machinery.meters import counter, exponential, histogram, metric_family
from kapi.machinery.status import Conflict, StatusError
from kapi.runtime.sliced import begin, register
from kapi.store.errors import StoreUnavailable

_SECONDS = exponential(1e-8, 10, 10)
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 60.0
RETRY_RATE, RETRY_BURST = 10.0, 100  # of all keys together: retries per second, retries at once
MAX_TURN_SECONDS = 0.02  # time in one turn of the reactor in which new keys are begun
Key = TypeVar("Key", bound=Hashable)


class QueueMetrics:
    """The metrics of one queue; ``seconds`` is its clock.  The metrics of queues with the same name are added up."""

    def __init__(self, name: str, seconds: Callable[[], float]) -> None:
        self.name = name
        self._seconds = seconds
        self._added_at: dict[Hashable, float] = {}  # waiting keys
        self._begun_at: dict[Hashable, float] = {}  # keys being handled
        METRICS.queues.setdefault(name, WeakSet()).add(self)

    def added(self, key: Hashable) -> None:
        METRICS.adds.add(self.name)
        self._added_at[key] = self._seconds()

    def begun(self, key: Hashable) -> None:
        now = self._begun_at[key] = self._seconds()
        METRICS.queue_duration.observe(now - self._added_at.pop(key, now), self.name)

    def finished(self, key: Hashable) -> None:
        now = self._seconds()
        METRICS.work_duration.observe(now - self._begun_at.pop(key, now), self.name)

    def retried(self) -> None:
        METRICS.retries.add(self.name)

    def stopped(self) -> None:
        """Drops the waiting keys, which will not be handled."""
        self._added_at.clear()

    @property
    def depth(self) -> int:
        return len(self._added_at)

    def ages(self) -> list[float]:
        """The seconds so far of each key that is being handled."""
        now = self._seconds()
        return [now - begun for begun in self._begun_at.values()]


class WorkQueueMetrics(Collector):
    """The metrics of all queues.  There are few names: a queue has the name of its controller, in each logical cluster."""

    def __init__(self) -> None:
        self.queues: dict[str, WeakSet[QueueMetrics]] = {}
        self.adds = counter("workqueue_adds_total")
        self.retries = counter("workqueue_retries_total")
        self.queue_duration = histogram("workqueue_queue_duration_seconds", _SECONDS)
        self.work_duration = histogram("workqueue_work_duration_seconds", _SECONDS)

    def collect(self) -> Iterator[Metric]:
        for part in (self.adds, self.retries, self.queue_duration, self.work_duration):
            yield from part.collect()
        depth = metric_family("workqueue_depth")
        unfinished = metric_family("workqueue_unfinished_work_seconds")
        longest = metric_family("workqueue_longest_running_processor_seconds")
        for name, queues in sorted(self.queues.items()):
            ages = [age for queue in queues for age in queue.ages()]
            depth.add_metric([name], sum(queue.depth for queue in queues))
            unfinished.add_metric([name], sum(ages))
            longest.add_metric([name], max(ages, default=0.0))
        yield from (depth, unfinished, longest)


METRICS = WorkQueueMetrics()


class WorkQueue(Generic[Key]):
    """``handle`` runs for ``workers`` keys at once, in slices if ``kapi.runtime.sliced`` is set up.

    A key whose handling raises an error is retried, and the error is logged.  When ``handle`` returns a number, the key is
    handled again after this number of seconds.  A retry comes after ``first_retry * 2 ** failures`` seconds.
    """

    log = Logger()

    def __init__(
        self,
        reactor: IReactorTime,
        name: str,
        handle: Callable[[Key], Awaitable[float | None]],
        workers: int = 4,
        first_retry: float = FIRST_RETRY_SECONDS,
    ) -> None:
        self._reactor = reactor
        self._name = name
        self._handle = handle
        self._workers = workers
        self._first_retry = first_retry
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()  # keys in _ready
        self._running: dict[Key, Deferred[None] | None] = {}  # None: its handler has not waited yet
        self._again: set[Key] = set()  # keys that were added while they are handled
        self._later: dict[Key, IDelayedCall] = {}
        self._failures: dict[Key, int] = {}
        self._retries = TokenBucket(reactor, RETRY_RATE, RETRY_BURST)
        self._woken = False
        self._stopped = False
        self._metrics = QueueMetrics(name, reactor.seconds)
        register(reactor, self)

    def add(self, key: Key) -> None:
        if self._stopped or key in self._waiting:
            return
        if key in self._running:
            self._again.add(key)
            return
        self._waiting.add(key)
        self._ready.append(key)
        self._metrics.added(key)
        self._wake()

    def add_after(self, key: Key, seconds: float) -> None:
        """Adds the key after this number of seconds; of two times for the same key the earlier one counts."""
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
        self._metrics.stopped()
        for task in list(self._running.values()):
            if task is not None:
                task.cancel()

    @property
    def idle(self) -> bool:
        """Whether no key is being handled or waits to be handled now."""
        return not self._ready and not self._running

    def busy(self, within: float) -> bool:
        """See ``kapi.runtime.sliced``."""
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
        end = self._reactor.seconds() + MAX_TURN_SECONDS
        while self._ready and len(self._running) < self._workers and not self._stopped:
            if self._reactor.seconds() > end:
                self._wake()
                return
            key = self._ready.popleft()
            self._waiting.discard(key)
            self._metrics.begun(key)
            # so that a key which the handler adds again before it first waits is handled again
            self._running[key] = None
            task = begin(self._reactor, self._run(key))
            if not task.called:
                self._running[key] = task
            task.addBoth(self._finished, key)

    async def _run(self, key: Key) -> None:
        try:
            again = await self._handle(key)
        except CancelledError:  # by ``stop``, or from a Deferred that the handler waited for
            if not self._stopped:
                self._retry(key)
        except Conflict:  # another writer was faster, which is normal: nothing is logged
            self._retry(key)
        except StatusError as error:
            self.log.info("{name}: {key}: {message}", name=self._name, key=str(key), message=error.message)
            self._retry(key)
        except StoreUnavailable as error:  # no traceback: the store has logged the reason
            self.log.info("{name}: {key}: {message}", name=self._name, key=str(key), message=str(error))
            self._retry(key)
        except OSError as error:  # such as a missing file or a full disk: the text is sufficient
            self.log.error("{name}: {key}: {error}", name=self._name, key=str(key), error=str(error))
            self._retry(key)
        except Exception:
            self.log.failure("{name}: {key} failed", name=self._name, key=str(key))
            self._retry(key)
        else:
            self._failures.pop(key, None)
            if again is not None:
                self.add_after(key, again)

    def _retry(self, key: Key) -> None:
        self._metrics.retried()
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(MAX_RETRY_SECONDS, self._first_retry * 2.0 ** min(failures, 20))
        self.add_after(key, max(delay, self._retries.reserve()))

    def _finished(self, result: object, key: Key) -> None:
        self._running.pop(key, None)
        self._metrics.finished(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif self._ready and not self._stopped:
            self._wake()
