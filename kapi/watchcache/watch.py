"""One watch: a backlog to begin with, then batches as they come; paused and bounded when its client is slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Protocol

from twisted.logger import Logger

from kapi.request.pending import Pending, Share
from kapi.store.errors import Compacted
from kapi.watchcache.backlog import Initial
from kapi.watchcache.event import Batch
from kapi.watchcache.selection import Group

log = Logger()

OnBatch = Callable[[Batch], None]
OnEnd = Callable[["Exception | None"], None]
_MAX_BATCHES = 8  # batches of a backlog written in one turn, so that others get theirs
_MAX_SECONDS = 0.01  # seconds of a turn after which no further batch is begun


class Source(Protocol):
    """The cache that a watch is of."""

    longest_queue: int
    largest_queue: int

    @property
    def pending(self) -> Pending | None: ...

    def bookmark(self) -> Batch | None: ...

    def forget(self, watch: Watch, group: Group) -> None: ...

    def count_terminated(self) -> None: ...

    def later(self, function: Callable[[], object]) -> None: ...


class Watch:
    """``on_batch`` is never called before ``Cache.watch`` has returned, nor while paused."""

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
        self._after = after  # events up to this revision are in the backlog, or not wanted
        self._backlog = backlog
        #: None while batches go straight through: what an idle watch looks like
        self._queue: deque[Batch] | None = None if backlog is None else deque()
        self._queued = 0  # events in the queue
        self._queued_bytes = 0
        self._paused = False
        self._pumping = False
        self.ended = False
        self.was_cut_off = False  # because it was slow
        self._gone = False  # the client
        self.bookmarks = bookmarks
        self.deadline = deadline  # reactor seconds when the watch will be ended by its client's timeout; 0 = never
        if backlog is not None:
            self._schedule()

    @property
    def behind(self) -> bool:
        """Whether something of what has happened was not handed over yet."""
        return self._queue is not None or bool(self._group.pending)

    def pause(self) -> None:
        """The client is slow (``pauseProducing``): events queue up, to a bound."""
        self._paused = True
        if self._queue is None:
            self._queue = deque()
        elif isinstance(self._backlog, Initial):
            self._backlog.release()

    def resume(self) -> None:
        """The client reads again (``resumeProducing``)."""
        self._paused = False
        if self._queue is not None and not self._pumping:
            self._pump()

    def stop(self) -> None:
        """The client has gone.  ``on_end`` is not called."""
        self._gone = True
        if not self.ended:
            self._leave()

    # -- the cache's side

    def deliver(self, batch: Batch) -> None:
        if self._after >= batch.events[0].revision:
            newer = batch.after(self._after)
            if newer is None:
                return
            batch = newer
        if self._queue is None:
            self._hand_over(batch)
            return
        self._queue.append(batch)
        self._queued += len(batch.events)
        self._queued_bytes += batch.size
        pending = self.source.pending
        if pending is not None:
            if batch.share is None:  # it is shared by all that wait for it, and goes with the last
                batch.share = Share(pending, batch.size)
            if len(self._queue) == 1 or pending.full:
                pending.wait(self)
        if self._queued > self.source.longest_queue or self._queued_bytes > self.source.largest_queue:
            self.cut_off()

    def bookmark(self, batch: Batch) -> None:
        """Delivers a bookmark, unless something is still on its way or the client knows more."""
        if self._queue is None and batch.events[0].revision >= self._after:
            self._hand_over(batch)

    def end(self, error: Exception | None) -> None:
        """The cache ends the watch."""
        if self.leave():
            self.send_end(error)

    def leave(self) -> bool:
        """Nothing is delivered any more; ``send_end`` is to follow.  False for a watch that has ended."""
        if self.ended:
            return False
        self._leave()
        return True

    def send_end(self, error: Exception | None) -> None:
        """Calls ``on_end``, unless the client has gone meanwhile."""
        if self._gone:
            return
        try:
            self._on_end(error)
        except Exception:
            log.failure("the end of a watch failed")

    def cut_off(self) -> None:
        """What waits for it is too much, or others need the memory."""
        if not self.ended:
            self.was_cut_off = True
            self.source.count_terminated()
            self.end(None)

    def _leave(self) -> None:
        self.ended = True
        if self._queue and self.source.pending is not None:
            self.source.pending.leave(self)
        self._queue = self._backlog = None
        self.source.forget(self, self._group)

    def _hand_over(self, batch: Batch) -> None:
        try:
            self._on_batch(batch)
        except Exception:
            log.failure("delivering watch events failed; the watch ends")
            self.end(None)

    def _schedule(self) -> None:
        self._pumping = True
        self.source.later(self._pump)

    def _pump(self) -> None:
        """Delivers backlog and queue until the client is slow or all is delivered."""
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
                log.failure("selecting what a watch is to begin with failed; it ends")
                self.end(None)
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
            self._hand_over(batch)
            self._pumping = False
        if not self.ended and not self._paused and self._queue is not None:
            self._schedule()
