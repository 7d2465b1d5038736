"""What the server answers to commands: changes go to the follower first, then the writers go on.

An answer to a write is its revision, what its object is instead of what was expected, or an error of the server that has
nothing to do with the object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.store.confirmation import Confirmation
from kapi.store.connection import Connection, ConnectionGone, Pending, PendingWrite
from kapi.store.entries import Skipped
from kapi.store.errors import OutcomeUnknown, StoreError, StoreUnavailable
from kapi.store.feed import granted, written
from kapi.store.interface import CREATED, DELETED, UPDATED
from kapi.store.loading import Progress
from kapi.store.repair import repair
from kapi.store.reply import Reply
from kapi.store.script import Keys
from kapi.store.shared_revisions import SharedRevisions
from kapi.store.writing import RECONNECT, Writing, explain, refusal_of

log = Logger()

_UNKNOWN = "the outcome of the write is unknown"
_OPERATIONS = {CREATED: "create", UPDATED: "update", DELETED: "delete"}


class Replies:
    """``feed``, if any, gets the changes from the replies themselves, since no other process writes.

    ``lost`` is called when it misses something, ``went_back`` with the reason when the store has lost what it had.  What replies
    report is shown in ``shared``, if any, before it is handed on; ``show_newest`` does that when they do not name the revision.
    """

    def __init__(
        self,
        where: str,
        keys: Keys,
        skipped: Skipped,
        writing: Writing,
        confirmation: Confirmation | None,
        lost: Callable[[], None],
        went_back: Callable[[str], None],
        shared: SharedRevisions | None,
        show_newest: Callable[[], Coroutine[Deferred[object], object, None]],
    ) -> None:
        self.where = where
        self.feed: Progress | None = None
        #: called with the operation, the key and the seconds it took: for metrics
        self.on_request: Callable[[str, str, float], None] | None = None
        self._keys = keys
        self._skipped = skipped
        self._writing = writing
        self._confirmation = confirmation
        self._lost = lost
        self._went_back = went_back
        self._shared = shared
        self._show_newest = show_newest
        self._connection: Connection | None = None
        self._compares = False
        self._last_written = 0  # the revision of our latest write on this connection
        self._repairing = False

    def begin(self, connection: Connection, compares: bool) -> None:
        """From now on the connection's replies come here; ``compares`` their revisions, which have to grow."""
        connection.on_replies = self.take
        connection.error = OutcomeUnknown(f"{self.where}: the connection was lost; {_UNKNOWN}")
        self._connection, self._compares, self._last_written = connection, compares, 0

    def end(self) -> None:
        self._connection = None

    def take(self, batch: list[tuple[Pending, object]]) -> None:
        fed = self._fed(batch)
        confirmation, now = self._confirmation, time.perf_counter()
        for pending, reply in batch:
            deferred, write = pending
            if write is None:
                if isinstance(reply, Exception):
                    deferred.errback(self.interpret(reply))
                else:
                    deferred.callback(reply)
                continue
            if isinstance(write, list):
                self._take_together(pending, write, reply, fed, now)
                continue
            self._observe(write, now)
            if type(reply) is not int or reply <= 0:
                self._refused(pending, write, reply)
            elif not fed:  # it was done, but nobody here can see it yet, or in a history that may not last
                deferred.errback(OutcomeUnknown(f"{self.where}: {_UNKNOWN}"))
            elif confirmation is not None:
                confirmation.hold(deferred, reply)
            else:
                deferred.callback(reply)

    def _take_together(self, pending: Pending, writes: list[PendingWrite], reply: Reply, fed: bool, now: float) -> None:
        """What was sent by one command has one answer: a list, or an error of all."""
        for write in writes:
            self._observe(write, now)
        if type(reply) is not list:
            self._refused(pending, writes[0], reply)
            return
        deferred, confirmation = pending[0], self._confirmation
        results = [one if one > 0 else refusal_of(write, one) for write, one in zip(writes, reply, strict=True)]
        if not fed:
            deferred.errback(OutcomeUnknown(f"{self.where}: {_UNKNOWN}"))
        elif confirmation is not None:
            confirmation.hold(deferred, results)
        elif self._shared is not None and not self._show_refusals(reply):
            self._when_shown(deferred, results, OutcomeUnknown(f"{self.where}: {_UNKNOWN}"))
        else:
            deferred.callback(results)

    def _fed(self, batch: list[tuple[Pending, object]]) -> bool:
        """Whether the writes among them can be seen, or will be."""
        if self.feed is None and not self._compares:
            return True
        if self.feed is None:
            return self._grown(granted(batch))
        changes = written(batch)
        if changes and not self.feed.advance(changes):
            log.error("the store's history has a gap; loading everything again")
            self._lost()
            return False
        return True

    def _grown(self, revisions: list[tuple[int, int]]) -> bool:
        """Whether each revision is newer than those that were known when its write was sent."""
        last = self._last_written
        for revision, known in revisions:
            if revision <= last or revision <= known:
                self._went_back(f"it gave revision {revision} again")
                return False
            last = revision
        self._last_written = last
        if self._shared is not None:
            self._shared.show(last)
        return True

    def _refused(self, pending: Pending, write: PendingWrite, reply: object) -> None:
        deferred = pending[0]
        if not isinstance(reply, Exception):
            refusal = refusal_of(write, reply)
            if self._confirmation is not None:  # it may be about something that fail-over can lose
                self._confirmation.hold(deferred, refusal)
            elif self._shared is not None and not self._show_refusals((reply,)):
                self._when_shown(deferred, refusal, None)
            else:
                deferred.errback(refusal)
        elif str(reply).startswith("NOSCRIPT") and self._connection is not None:
            self._writing.send_again(self._connection, pending)
        else:
            error = self.interpret(reply)
            if not str(reply).startswith(RECONNECT):
                self._writing.refused_by_server(str(error))
            deferred.errback(error)
            if "target stream top item" in str(error) and not self._repairing:
                self._repairing = True
                Deferred.fromCoroutine(self._repair()).addErrback(
                    lambda failure: log.failure("a repair failed", failure)
                )

    def _show_refusals(self, replies: Sequence[Reply]) -> bool:
        """Shows at which revisions objects were found; False when one was gone, or had been charged, at an unknown one."""
        assert self._shared is not None
        known = True
        for reply in replies:
            if type(reply) is not int or reply == 0:
                known = False
            elif reply < 0:
                self._shared.show(-reply)
        return known

    def _when_shown(self, deferred: Deferred[Reply], answer: Reply, otherwise: StoreError | None) -> None:
        """Answers once every revision that it may contain is shown; with ``otherwise``, if given, when that fails."""

        def shown(_: None) -> None:
            if isinstance(answer, StoreError):
                deferred.errback(answer)
            else:
                deferred.callback(answer)

        def failed(failure: Failure) -> None:
            deferred.errback(otherwise or failure)

        Deferred.fromCoroutine(self._show_newest()).addCallbacks(shown, failed)

    def _observe(self, write: PendingWrite, now: float) -> None:
        if self.on_request is None:
            return
        try:
            self.on_request(_OPERATIONS[write[0]], write[1], now - write[5])
        except Exception:
            log.failure("counting a request to the store failed")

    async def _repair(self) -> None:
        """An entry that is not ours is in the way of all further changes."""
        try:
            if self._connection is not None:
                await repair(self._connection, self._keys, self._skipped)
        except ConnectionGone:
            pass
        finally:
            self._repairing = False

    def interpret(self, error: Exception) -> StoreError:
        """What the server or the connection said, as a store error."""
        text = explain(error)
        if text.startswith(RECONNECT) and self._connection is not None:
            self._connection.abort(text)  # connecting anew checks the server
        return StoreUnavailable(f"{self.where}: {text}")
