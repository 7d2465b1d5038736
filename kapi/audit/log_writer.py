"""The log back end as the server uses it: what may hang does so in a thread, and only those wait whose events it has.

A line goes to a local disk within microseconds, and a thread for it would cost more than that: the reactor writes by itself as
long as writing is quick.  A file on the network, one whose writing took long, and a pipe whose reader has stopped are a
thread's business.  The order of the lines is kept.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from queue import SimpleQueue
from threading import Thread
from time import monotonic

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.audit.log_file import LogFile
from kapi.audit.record import Record
from kapi.audit.sinks import MAX_BUFFERED_BYTES, MAX_STOP_SECONDS
from kapi.request.reactor import RequestReactor

log = Logger()
SLOW_SECONDS = 0.1  # seconds of a write after which the file is a thread's
QUICK_SECONDS = 60.0  # seconds without such a write after which it is the reactor's again
LATE_SECONDS = 5.0  # seconds of a write after which the log says so

Result = tuple[Deferred[None], Exception | None, float]  # and the seconds that it took


class LogWriter:
    """``reactor`` calls what a thread asks it to; ``seconds`` is a monotonic clock."""

    name = "log"
    immediate = True

    def __init__(self, file: LogFile, reactor: RequestReactor, *, seconds: Callable[[], float] = monotonic) -> None:
        self._file = file
        self._reactor = reactor
        self._seconds = seconds
        self._slow_until = 0.0
        self._bytes = 0  # of lines that the thread has
        self._given: dict[Deferred[None], int] = {}  # with its bytes: what the thread has, in order
        self._progress = 0.0  # when the thread began, or last ended a write
        self._late = False  # it has been said that the thread hangs
        self._queue: SimpleQueue[tuple[bytes, Deferred[None]] | None] = SimpleQueue()
        self._results: deque[Result] = deque()
        self._collecting = False
        self._thread: Thread | None = None
        self._closed = False
        self._ended: Deferred[None] | None = None

    def send(self, records: Sequence[Record]) -> Deferred[None] | None:
        """None when they are written.  Raises OSError when they are not, or when too much waits already."""
        data = self._file.lines(records)
        if self._given or self._file.may_wait or self._slow_until:
            now = self._seconds()
            if self._given or self._file.may_wait or now < self._slow_until:
                return self._hand_over(data, now)
            self._slow_until = 0.0
        before = self._seconds()
        rest = self._file.append(data, patient=False)
        after = self._seconds()
        if after - before > SLOW_SECONDS:
            log.warn("a write to the audit log took {took:.1f} s: a thread goes on with it", took=after - before)
            self._slow_until = after + QUICK_SECONDS
        if not rest:
            return None
        try:
            return self._hand_over(rest, after)
        except OSError:
            self._file.leave_off()
            raise

    def _hand_over(self, data: bytes, now: float) -> Deferred[None]:
        if self._closed:
            raise OSError("the audit log is closed")
        if self._thread is None:
            self._thread = self._begin()
        if self._bytes + len(data) > MAX_BUFFERED_BYTES:
            raise OSError(f"the audit log is {self._bytes} bytes behind")
        if not self._given:
            self._progress = now
        elif not self._late and now - self._progress > LATE_SECONDS:
            self._late = True
            log.error(
                "the audit log has taken nothing for {seconds:.0f} s: requests wait for it",
                seconds=now - self._progress,
            )
        written: Deferred[None] = Deferred(_left)
        self._given[written] = len(data)
        self._bytes += len(data)
        self._queue.put((data, written))
        return written

    def _begin(self) -> Thread:
        thread = Thread(target=self._write, name="audit log", daemon=True)  # its end is waited for, but not long
        try:
            thread.start()
        except RuntimeError as error:  # the limit of processes, which also counts threads
            raise OSError(f"the audit log cannot be written now: {error}") from None
        return thread

    # -- in the thread

    def _write(self) -> None:
        while (work := self._queue.get()) is not None:
            data, written = work
            error: Exception | None = None
            before = self._seconds()
            try:
                self._file.append(data)
            except Exception as caught:
                error = caught
            self._results.append((written, error, self._seconds() - before))
            if not self._collecting:
                self._collecting = True
                self._reactor.callFromThread(self._collect)
        with contextlib.suppress(OSError):
            self._file.close()

    # -- in the reactor's thread again

    def _collect(self) -> None:
        self._collecting = False
        now = self._progress = self._seconds()
        if self._late:
            self._late = False
            log.warn("the audit log is written again")
        while self._results:
            written, error, took = self._results.popleft()
            self._bytes -= self._given.pop(written)
            if took > SLOW_SECONDS:
                self._slow_until = now + QUICK_SECONDS
            if written.called:
                continue
            if error is None:
                written.callback(None)
            else:
                written.errback(error)
        if not self._given:
            self._fire_ended()

    # -- the end

    def close(self) -> Awaitable[None] | None:
        """What a disk that hangs has not taken in time is lost, and counted by those who wait for it."""
        self._closed = True
        self._slow_until = inf  # later events are refused by ``_hand_over``
        if self._thread is None:
            self._file.close()
            return None
        self._queue.put(None)
        return self._end() if self._given else None

    async def _end(self) -> None:
        """Also for lines whose requests have left.  A disk that has taken nothing for so long already gets no more time."""
        self._ended = Deferred()
        left = MAX_STOP_SECONDS - (self._seconds() - self._progress)
        giving_up = self._reactor.callLater(max(0.0, left), self._give_up)
        await self._ended
        if giving_up.active():
            giving_up.cancel()

    def _give_up(self) -> None:
        late = TimeoutError(f"not written within {MAX_STOP_SECONDS:.0f} seconds before the server's end")
        log.error("the audit log has not taken {bytes} bytes before the server's end", bytes=self._bytes)
        for written in list(self._given):
            if not written.called:
                written.errback(late)
        self._fire_ended()

    def _fire_ended(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.callback(None)


def _left(written: Deferred[None]) -> None:
    """Who waited has gone; the lines are written nevertheless."""
