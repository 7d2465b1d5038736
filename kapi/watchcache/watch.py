"""One watch: first a backlog, then batches as they arrive, queued up to a limit while its client is slow; and its bookmarks.

The timer wheel of bookmarks has one slot for each second: an idle watch costs nothing between two bookmarks (upstream: apiserver
``storage/cacher``, ``watcherBookmarkTimeBuckets``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Protocol

from twisted.logger import Logger

from kapi.request.pending import Pending
from kapi.store.errors import Compacted
from kapi.watchcache.backlog import Initial
from kapi.watchcache.event import Batch
from kapi.watchcache.selection import Group
from kapi.watchcache.turns import Turns

log = Logger()

OnBatch = Callable[[Batch], None]
OnEnd = Callable[["Exception | None"], None]
_MAX_BATCHES = 8  # batches of a backlog sent in one turn of the reactor
_MAX_SECONDS = 0.01  # after so long no further batch is started in a turn
INTERVAL_SECONDS = 60
BEFORE_TIMEOUT_SECONDS = 2  # a last bookmark shortly before the client's timeout, so that it can resume from there


class Source(Protocol):
    """What a watch needs of its cache."""

    max_queued_events: int
    max_queued_bytes: int

    @property
    def pending(self) -> Pending | None: ...

    def bookmark(self) -> Batch | None: ...

    def forget(self, watch: Watch, group: Group) -> None: ...

    def count_terminated(self) -> None: ...

    @property
    def turns(self) -> Turns: ...


class Watch:
    """A running watch.  ``on_batch`` is never called before ``Cache.watch`` has returned, nor while paused."""

    __slots__ = (
        "source",
        "_group",
        "_on_batch",
        "_on_end",
        "_after",
        "_backlog",
        "_queue",
        "_queued",
        "_queued_bytes",
        "_paused",
        "_pumping",
        "_gone",
        "ended",
        "was_cut_off",
        "failed",
        "bookmarks",
        "deadline",
    )

    def __init__(
        self,
        source: Source,
        group: Group,
        on_batch: OnBatch,
        on_end: OnEnd,
        after: int,
        backlog: Iterator[Batch] | None,
        bookmarks: bool,
        deadline: float,
    ) -> None:
        self.source = source
        self._group = group
        self._on_batch = on_batch
        self._on_end = on_end
        self._after = after  # events up to this revision are not delivered: the backlog has them, or they are too old
        self._backlog = backlog
        #: None while batches are sent at once, as by an idle watch
        self._queue: deque[Batch] | None = None if backlog is None else deque()
        self._queued = 0  # events in the queue
        self._queued_bytes = 0
        self._paused = False
        self._pumping = False
        self.ended = False
        self.was_cut_off = False  # whether it ended because its client was slow
        self.failed = False  # whether a fault of the server has ended it
        self._gone = False  # whether the client has disconnected
        self.bookmarks = bookmarks  # whether it gets bookmarks
        self.deadline = deadline  # time of the reactor's clock when the client's timeout ends the watch; 0: never
        if backlog is not None:
            self._schedule()

    @property
    def behind(self) -> bool:
        """Whether it has not sent all events yet."""
        return self._queue is not None or bool(self._group.pending)

    def pause(self) -> None:
        """Called when the client is slow (``pauseProducing``): events are queued, up to the cache's limits."""
        self._paused = True
        if self._queue is None:
            self._queue = deque()
        elif isinstance(self._backlog, Initial):
            self._backlog.release()

    def resume(self) -> None:
        """Called when the client reads again (``resumeProducing``)."""
        self._paused = False
        if self._queue is not None and not self._pumping:
            self._pumping = True
            self.source.turns.run(self._pump)

    def stop(self) -> None:
        """Called when the client has disconnected.  ``on_end`` is not called."""
        self._gone = True
        if not self.ended:
            self._detach()

    # -- the cache's side

    def deliver(self, batch: Batch) -> None:
        """Sends or queues the events of a batch that are newer than the watch's start."""
        if self._after >= batch.events[0].revision:
            newer = batch.after(self._after)
            if newer is None:
                return
            batch = newer
        if self._queue is None:
            self._send(batch)
            return
        self._queue.append(batch)
        self._queued += len(batch.events)
        self._queued_bytes += batch.size
        pending = self.source.pending
        if pending is not None:
            batch.waits(pending)
            if len(self._queue) == 1 or pending.full:
                pending.wait(self)
        if self._queued > self.source.max_queued_events or self._queued_bytes > self.source.max_queued_bytes:
            self.cut_off()

    def bookmark(self, batch: Batch) -> None:
        """Sends a bookmark, unless events are still queued, the client has a newer revision, or the watch has ended meanwhile."""
        if self._queue is None and not self.ended and batch.events[0].revision >= self._after:
            self._send(batch)

    def end(self, error: Exception | None) -> None:
        """Ends the watch, on behalf of the cache."""
        if self.detach():
            self.send_end(error)

    def detach(self) -> bool:
        """Stops all deliveries; the caller must call ``send_end`` next.  False when the watch has ended already."""
        if self.ended:
            return False
        self._detach()
        return True

    def send_end(self, error: Exception | None) -> None:
        """Calls ``on_end``, unless the client has disconnected meanwhile."""
        if self._gone:
            return
        try:
            self._on_end(error)
        except Exception:
            log.failure("the end of a watch failed")

    def cut_off(self) -> None:
        """Ends the watch because too many events wait for its client, or because the memory is needed for other clients."""
        if not self.ended:
            self.was_cut_off = True
            self.source.count_terminated()
            self.end(None)

    def fail(self) -> None:
        """Ends the watch because of a fault of the server.  Its client starts another one, as after any end."""
        if not self.ended:
            self.failed = True
            self.end(None)

    def _detach(self) -> None:
        self.ended = True
        if self._queue and self.source.pending is not None:
            self.source.pending.leave(self)
        self._queue = self._backlog = None
        self.source.forget(self, self._group)

    def _send(self, batch: Batch) -> None:
        try:
            self._on_batch(batch)
        except Exception:
            log.failure("delivering watch events failed; the watch ends")
            self.fail()

    def _schedule(self) -> None:
        self._pumping = True
        self.source.turns.wait(self._pump)

    def _pump(self) -> None:
        """Sends the backlog and the queue, until the client is slow or everything is sent."""
        self._pumping = False
        until = perf_counter() + _MAX_SECONDS
        for number in range(_MAX_BATCHES):
            if self.ended or self._paused or self._queue is None:
                return
            if number and perf_counter() > until:
                break
            try:
                batch = next(self._backlog, None) if self._backlog is not None else None
            except Compacted as error:
                self.end(error)
                return
            except Exception:
                log.failure("reading the backlog of a watch failed; the watch ends")
                self.fail()
                return
            if batch is None:
                self._backlog = None
                if not self._queue:
                    self._queue = None
                    return
                batch = self._queue.popleft()
                self._queued -= len(batch.events)
                self._queued_bytes -= batch.size
                if self.source.pending is not None:
                    if self._queue:
                        self.source.pending.progress(self)
                    else:
                        self.source.pending.leave(self)
            if not batch.events:
                continue
            self._pumping = True  # a resume from inside on_batch must not recurse
            self._send(batch)
            self._pumping = False
        if not self.ended and not self._paused and self._queue is not None:
            self._schedule()


class BookmarkWheel:
    """``seconds`` is the reactor's clock; ``turn`` must be called once a second."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._spokes: dict[int, dict[Watch, None]] = {}
        self._spoke_of: dict[Watch, int] = {}
        self._turned = int(seconds())

    def add(self, watch: Watch) -> None:
        """Schedules the watch's bookmark: in a minute, or shortly before its client's timeout."""
        now = self._seconds()
        due = now + INTERVAL_SECONDS
        last = watch.deadline - BEFORE_TIMEOUT_SECONDS
        if now < last < due:
            due = last
        spoke = max(int(due), self._turned + 1)
        self._spokes.setdefault(spoke, {})[watch] = None
        self._spoke_of[watch] = spoke

    def discard(self, watch: Watch) -> None:
        spoke = self._spoke_of.pop(watch, None)
        if spoke is not None:
            del self._spokes[spoke][watch]

    def turn(self) -> list[Watch]:
        """Returns the watches whose bookmark is due, and schedules their next one."""
        now = int(self._seconds())
        due: list[Watch] = []
        while self._turned < now:
            self._turned += 1
            due.extend(self._spokes.pop(self._turned, ()))
        for watch in due:
            self.add(watch)
        return due
