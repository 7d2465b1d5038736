"""Sinks between events and back ends: union, blocking modes, truncation, batching.

Upstream: ``plugin/pkg/audit``.

``Sink.process(*records)`` returns False only when the request must fail.  A ``lenient`` sink never returns False, and usually
does not make the request wait.  ``Backend.send(records)`` raises, or its awaitable fails, when the records were not delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Sequence
from time import monotonic
from typing import Protocol, Union

from twisted.internet.defer import CancelledError, Deferred, FirstError, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.audit.metrics import Meter
from kapi.audit.policy import REQUEST
from kapi.audit.record import Record

log = Logger()
_LOG_INTERVAL_SECONDS = 1.0  # between two log lines about lost events of a back end
MAX_BUFFERED_BYTES = 128 * 1024 * 1024  # size of the events that wait for a back end or are being sent
MAX_SENDING = 64  # batches that are sent concurrently
#: for the last events when the server stops: enough for one request, and less than a service manager's time-out
MAX_STOP_SECONDS = 30.0

#: False when the request must fail; a Deferred when the request must wait for the back end
Outcome = Union[bool, "Deferred[bool]"]


class Backend(Protocol):
    name: str
    immediate: bool  # whether ``send`` usually does not wait

    def send(self, records: Sequence[Record]) -> Awaitable[None] | None: ...
    def close(self) -> Awaitable[None] | None: ...


class Sink(Protocol):
    lenient: bool

    def process(self, *records: Record) -> Outcome: ...
    def stop(self) -> Awaitable[None] | None: ...


class UnionSink:
    """Sends each record to several sinks."""

    def __init__(self, sinks: Sequence[Sink], meter: Meter) -> None:
        self._sinks = tuple(sinks)
        self._meter = meter
        self.lenient = all(sink.lenient for sink in sinks)

    def process(self, *records: Record) -> Outcome:
        self._meter.events += len(records)
        accepted = True
        waiting: list[Deferred[bool]] = []
        for sink in self._sinks:
            outcome = sink.process(*records)
            if outcome is True:
                continue
            if isinstance(outcome, Deferred):
                waiting.append(outcome)
            else:
                accepted = False
        if not waiting:
            return accepted
        gathered = gatherResults(waiting, consumeErrors=True)
        return gathered.addCallbacks(lambda outcomes: accepted and all(outcomes), _first_error)

    async def stop(self) -> None:
        """Stops all sinks concurrently, since each may take long.  Raises nothing, so that the shutdown continues."""
        await gatherResults([Deferred.fromCoroutine(_stopped(sink)) for sink in self._sinks])


async def _stopped(sink: Sink) -> None:
    try:
        stopping = sink.stop()
        if stopping is not None:
            await stopping
    except CancelledError:
        raise
    except Exception:
        log.failure("an audit back end was not closed in order")


class Blocking:
    """Sends each record at once; with ``strict`` the request fails when the back end fails."""

    def __init__(self, backend: Backend, meter: Meter, *, strict: bool) -> None:
        self._backend = backend
        self._meter = meter
        self._strict = strict
        self.lenient = not strict and backend.immediate

    def process(self, *records: Record) -> Outcome:
        try:
            sending = self._backend.send(records)
        except Exception as error:
            return self._failed(len(records), error)
        return True if sending is None else Deferred.fromCoroutine(self._wait(len(records), sending))

    async def _wait(self, count: int, sending: Awaitable[None]) -> bool:
        try:
            await sending
        except CancelledError:
            raise
        except Exception as error:
            return self._failed(count, error)
        return True

    def _failed(self, count: int, error: Exception) -> bool:
        report(self._meter, self._backend.name, count, error)
        return not self._strict

    def stop(self) -> Awaitable[None] | None:
        return self._backend.close()


class Truncating:
    """Removes the objects from events of more than ``max_event`` bytes; drops events that are then still too large."""

    name = "truncate"

    def __init__(self, sink: Sink, meter: Meter, max_event: int) -> None:
        self._sink = sink
        self._meter = meter
        self._max_event = max_event
        self.lenient = sink.lenient

    def process(self, *records: Record) -> Outcome:
        kept = []
        for record in records:
            if len(record.data) > self._max_event and record.level >= REQUEST:
                record = record.truncated()
            if len(record.data) > self._max_event:
                report(self._meter, self.name, 1, ValueError("event is too large even after truncating"))
            else:
                kept.append(record)
        return self._sink.process(*kept) if kept else True

    def stop(self) -> Awaitable[None] | None:
        return self._sink.stop()


class Batching:
    """Collects events and sends them in batches, at a bounded rate.  Events beyond the buffer are lost and counted.

    At most MAX_SENDING batches and MAX_BUFFERED_BYTES wait for a slow back end.  ``buffer_size`` and ``max_size`` are events,
    ``max_wait`` is in seconds, ``qps`` in batches a second (0: no throttling), ``max_bytes`` of a batch (0: no limit).
    """

    lenient = True

    def __init__(
        self,
        backend: Backend,
        meter: Meter,
        reactor: IReactorTime,
        *,
        buffer_size: int = 10_000,
        max_size: int = 400,
        max_wait: float = 30.0,
        qps: float = 10.0,
        burst: int = 15,
        max_bytes: int = 0,
    ) -> None:
        self._backend = backend
        self._meter = meter
        self._reactor = reactor
        self._buffer: deque[Record] = deque()
        self._buffer_size = buffer_size
        self._max_size = max_size
        self._max_wait = max_wait
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._counted = reactor.seconds()
        self._max_bytes = max_bytes
        self._timer: IDelayedCall | None = None
        self._sending: dict[Deferred[None], int] = {}  # batches that are being sent, with the number of their events
        self._bytes = 0  # size of the events in the buffer and of those being sent
        self._draining = False
        self._stopped = False
        self._ended: Deferred[None] | None = None  # fires at the stop, when no batch is being sent any more
        self._given_up = False

    def process(self, *records: Record) -> Outcome:
        for record in records:
            if self._stopped:
                report(self._meter, "buffered", 1, RuntimeError("audit backend shut down"))
            elif len(self._buffer) >= self._buffer_size or self._bytes + len(record.data) > MAX_BUFFERED_BYTES:
                report(self._meter, "buffered", 1, RuntimeError("audit buffer queue blocked"))
            else:
                self._buffer.append(record)
                self._bytes += len(record.data)
                if len(self._buffer) >= self._max_size:
                    self._drain(full_only=True)
                if self._buffer and self._timer is None:
                    self._timer = self._reactor.callLater(self._max_wait, self._tick)
        return True

    def _tick(self) -> None:
        self._timer = None
        self._drain(full_only=False)
        if self._buffer and self._timer is None:
            self._timer = self._reactor.callLater(self._max_wait, self._tick)

    def _drain(self, full_only: bool) -> None:
        if self._draining:  # called again by a batch that was delivered at once
            return
        self._draining = True
        try:
            while self._buffer and (not full_only or len(self._buffer) >= self._max_size):
                if len(self._sending) >= MAX_SENDING:
                    return  # continues when a batch was delivered
                wait = self._take_token()
                if wait > 0:
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer = self._reactor.callLater(wait, self._tick)
                    return
                self._send(self._batch())
        finally:
            self._draining = False

    def _batch(self) -> list[Record]:
        batch: list[Record] = []
        size = 0
        while self._buffer and len(batch) < self._max_size:
            size += len(self._buffer[0].data) if self._max_bytes else 0
            if batch and self._max_bytes and size > self._max_bytes:
                break
            batch.append(self._buffer.popleft())
        return batch

    def _take_token(self) -> float:
        """Takes a token and returns 0, or returns the seconds until the next token."""
        if not self._qps:
            return 0.0
        now = self._reactor.seconds()
        self._tokens = min(self._burst, self._tokens + (now - self._counted) * self._qps)
        self._counted = now
        if self._tokens < 1:
            return float((1 - self._tokens) / self._qps) + 1e-6  # a little more, for rounding
        self._tokens -= 1
        return 0.0

    def _send(self, batch: list[Record]) -> None:
        async def run() -> None:
            try:
                sending = self._backend.send(batch)
                if sending is not None:
                    await sending
            except CancelledError:
                if not self._given_up:
                    raise
            except Exception as error:
                if not self._given_up:
                    report(self._meter, self._backend.name, len(batch), error)

        size = sum(len(record.data) for record in batch)
        done: Deferred[None] = Deferred.fromCoroutine(run())
        self._sending[done] = len(batch)
        done.addBoth(lambda _: self._sent(done, size))

    def _sent(self, done: Deferred[None], size: int) -> None:
        self._sending.pop(done, None)
        self._bytes -= size
        self._drain(full_only=True)
        if not self._sending:
            self._end()

    async def stop(self) -> None:
        """Sends the waiting events.  Those that are not delivered within MAX_STOP_SECONDS are lost and counted."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._buffer:
            self._send(self._batch())
        if self._sending:
            self._ended = Deferred()
            giving_up = self._reactor.callLater(MAX_STOP_SECONDS, self._give_up)
            await self._ended
            if giving_up.active():
                giving_up.cancel()
        closing = self._backend.close()
        if closing is not None:
            await closing

    def _give_up(self) -> None:
        """Counts undelivered events as lost.  Does not rely on cancellation: a back end may retry after it."""
        self._given_up = True
        late = TimeoutError(f"not delivered within {MAX_STOP_SECONDS:.0f} seconds before the server's end")
        for sending, count in list(self._sending.items()):
            report(self._meter, self._backend.name, count, late)
            sending.cancel()
        self._end()

    def _end(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.callback(None)


def _first_error(failure: Failure) -> Failure:
    """Unwraps the error of the sink that failed first."""
    return failure.value.subFailure if isinstance(failure.value, FirstError) else failure


def report(meter: Meter, plugin: str, count: int, error: Exception) -> None:
    """Counts lost events, and logs the error at most once a second, without the events' contents."""
    meter.error(plugin, count)
    now = monotonic()
    logged_at, unlogged = meter.last_logged.get(plugin, (float("-inf"), 0))
    if now - logged_at < _LOG_INTERVAL_SECONDS:
        meter.last_logged[plugin] = logged_at, unlogged + count
        return
    meter.last_logged[plugin] = now, 0
    log.error(
        "Error in audit plugin '{plugin}' affecting {count} audit events: {error}",
        plugin=plugin,
        count=count + unlogged,
        error=error,
    )
