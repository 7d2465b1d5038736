"""Sends writes, and handles the server's replies: changes are passed to the follower first, then the writers resume.

The reply to a write is its revision, the actual state of an object that was not as expected, or an error that has nothing to do
with the object.

The server refuses a write before it changes anything (see ``kapi.store.script``).  So the write can be sent again, or fail with
StoreUnavailable.  While the server refuses all writes (memory, disk, a foreign entry in the stream), a probe finds out whether
they work again.  At the server's ``maxmemory`` see ``kapi.store.memory_limit``.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence

from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.store.confirmation import Confirmation
from kapi.store.connection import Connection, ConnectionGone, Pending, PendingWrite
from kapi.store.entries import Reply, Skipped
from kapi.store.errors import (
    KeyExists,
    KeyMissing,
    OutcomeUnknown,
    Outdated,
    RevisionConflict,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from kapi.store.feed import granted, written
from kapi.store.interface import CREATED, DELETED, UPDATED, Charge, Deletion
from kapi.store.loading import Progress
from kapi.store.memory_limit import FULL, History, has_space
from kapi.store.repair import repair
from kapi.store.script import ALLOWED_SHA, DELETIONS, DELETIONS_SHA, PROBE, SCRIPTS, SHA, Keys
from kapi.store.shared_revisions import SharedRevisions
from kapi.store.suitability import read_info

log = Logger()

_SCRIPT_LINE = re.compile(r" script: (?:[0-9a-f]{40}, )?on @\w+:\d+\.?$")
_NOTHING = (b"", b"")  # a deletion has neither an expiry nor charges
#: errors after which reconnecting helps, or names the missing right: the last two are of scripts, in Valkey and Redis.  Other
#: errors are problems of the server, and affect all writes
RECONNECT = (
    "READONLY", "LOADING", "NOAUTH", "NOPERM", "ERR ACL failure in script", "ERR The user executing the script can't",
)  # fmt: skip
_UNKNOWN = "the outcome of the write is unknown"
_OPERATIONS = {CREATED: "create", UPDATED: "update", DELETED: "delete"}


class Writing:
    """The writes of one store; ``failing`` is why the server refuses them, empty while it does not."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._names = keys[:5]
        self._probing = False
        self._refusal: StoreError | None = None  # why the server refuses writes
        self.history = History(keys)

    @property
    def failing(self) -> str:
        return "" if self._refusal is None else str(self._refusal)

    def send(
        self,
        connection: Connection,
        kind: str,
        key: str,
        expected: int,
        head: bytes,
        tail: bytes,
        lifetime: float | None,
        charges: Sequence[Charge],
        counted: int | None,
        known: int,
        allowed: bool,
    ) -> defer.Deferred[int]:
        """Sends a write; the result is its revision.

        ``lifetime`` is the seconds until it expires; ``known`` is a revision that the store is known to have reached.
        ``allowed``: also at the server's ``maxmemory``.
        """
        deferred: defer.Deferred[int] = defer.Deferred()
        further = (
            b"" if lifetime is None else b"%.3f" % lifetime,
            b"" if counted is None else counted,
            *itertools.chain.from_iterable(charges),
        )
        sha = ALLOWED_SHA if allowed else SHA
        connection.send(
            (b"EVALSHA", sha, 5, *self._names, kind, key, expected, head, tail, *further),
            (deferred, (kind, key, expected, head, tail, time.perf_counter(), further, known, sha)),
        )
        return deferred

    def send_deletions(
        self, connection: Connection, deletions: Sequence[Deletion], known: int
    ) -> defer.Deferred[Sequence[int | StoreError]]:
        """Deletes objects by one command, without sending their bytes, which the server has."""
        deferred: defer.Deferred[Sequence[int | StoreError]] = defer.Deferred()
        sent = time.perf_counter()
        writes: list[PendingWrite] = [
            (DELETED, *deletion, sent, _NOTHING, known, DELETIONS_SHA) for deletion in deletions
        ]
        connection.send((b"EVALSHA", DELETIONS_SHA, 5, *self._names, *_compared(writes)), (deferred, writes))
        return deferred

    def send_again(self, connection: Connection, pending: Pending) -> None:
        """Sends a write again that the server did not do, with its script, which the server may have forgotten (NOSCRIPT)."""
        deferred, write = pending
        assert write is not None
        sent = time.perf_counter()
        if isinstance(write, list):
            writes: list[PendingWrite] = [(*one[:5], sent, *one[6:]) for one in write]
            connection.send((b"EVAL", DELETIONS, 5, *self._names, *_compared(writes)), (deferred, writes))
            return
        kind, key, expected, head, tail, _, further, known, sha = write
        connection.send(
            (b"EVAL", SCRIPTS[sha], 5, *self._names, kind, key, expected, head, tail, *further),
            (deferred, (kind, key, expected, head, tail, sent, further, known, sha)),
        )

    def refused_by_server(self, error: StoreError) -> None:
        """Called after an error that has nothing to do with the written object."""
        known, self._refusal = self.failing, error
        if known != str(error):
            log.error("the store refuses writes: {why}", why=str(error))

    def check(self, connection: Connection) -> None:
        """Must be called once a second: finds out whether writes work again, if they did not; one request at a time."""
        refusal = self._refusal
        if refusal is None or self._probing:
            return
        self._probing = True
        if isinstance(refusal, StoreFull):
            self.history.drop(connection, time.perf_counter())
        probing = defer.Deferred.fromCoroutine(self._probe(connection, refusal))
        probing.addCallbacks(self._works, self._still_failing, errbackArgs=(connection,))

    async def _probe(self, connection: Connection, refusal: StoreError) -> None:
        await connection.execute_command("EVAL", PROBE, len(self._keys), *self._keys)
        if isinstance(refusal, StoreFull) and not has_space(
            read_info(await connection.execute_command("INFO", "memory"))
        ):
            raise refusal

    def _works(self, _: object) -> None:
        self._probing = False
        self._refusal = None
        log.error("the store takes writes again")  # at the same level as the refusal

    def _still_failing(self, failure: Failure, connection: Connection) -> None:
        self._probing = False
        if not connection.gone and isinstance(failure.value, StoreError):
            self.refused_by_server(failure.value)


def _compared(writes: Iterable[PendingWrite]) -> Iterable[str | int]:
    """Keys and expected revisions, alternating."""
    return itertools.chain.from_iterable((key, expected) for _, key, expected, *_ in writes)


async def load_scripts(connection: Connection) -> None:
    for source in SCRIPTS.values():
        await connection.execute_command("SCRIPT", "LOAD", source)


def refusal_of(write: PendingWrite, reply: Reply) -> StoreError:
    """The error for a script's reply about the object."""
    kind, key, expected = write[:3]
    if reply == b"outdated":
        return Outdated(key)
    if kind == CREATED:
        return KeyExists(key, -reply)
    if reply == 0:
        return KeyMissing(key)
    return RevisionConflict(key, expected, -reply)


def explain(error: Exception) -> str:
    """The server's error text without the line of the script."""
    return _SCRIPT_LINE.sub("", str(error))


class Replies:
    """Handles the replies of a store's command connection.

    ``feed`` is set when no other process writes: it gets the changes from the replies themselves.  ``lost`` is called when it
    misses a change, and ``went_back`` with the reason when the store has lost data.  Revisions in replies are shown in
    ``shared``, if any, before the replies are passed on; ``show_newest`` does that for replies without a revision.
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
        #: for metrics: called with the operation, the key, and how many seconds it took
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
        self._compares: bool  # set by ``begin``, like the next one
        self._last_written: int  # the revision of our latest write on this connection
        self._repairing = False

    def begin(self, connection: Connection, compares: bool) -> None:
        """Handles the connection's replies from now on; with ``compares`` their revisions must grow."""
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
            elif not fed:  # the write was done, but the follower lacks it, or the store has lost earlier writes
                deferred.errback(OutcomeUnknown(f"{self.where}: {_UNKNOWN}"))
            elif confirmation is not None:
                confirmation.hold(deferred, reply)
            else:
                deferred.callback(reply)

    def _take_together(self, pending: Pending, writes: list[PendingWrite], reply: Reply, fed: bool, now: float) -> None:
        """Handles the reply to several writes that were sent by one command: a list, or one error for all."""
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
        """Passes the changes to the follower; returns whether that worked and the revisions are as expected."""
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
        """Whether each revision is newer than the ones known when its write was sent; else the store has lost data."""
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
            if self._confirmation is not None:  # the refusal may show a write that a fail-over can lose
                self._confirmation.hold(deferred, refusal)
            elif self._shared is not None and not self._show_refusals((reply,)):
                self._when_shown(deferred, refusal, None)
            else:
                deferred.errback(refusal)
        elif self._connection is not None and self._may_succeed_now(self._connection, reply, write):
            self._writing.send_again(self._connection, pending)
        else:
            error = self.interpret(reply)
            if not str(reply).startswith(RECONNECT):
                self._writing.refused_by_server(error)
            deferred.errback(error)
            if "target stream top item" in str(error) and not self._repairing:
                self._repairing = True
                Deferred.fromCoroutine(self._repair()).addErrback(
                    lambda failure: log.failure("a repair failed", failure)
                )

    def _may_succeed_now(self, connection: Connection, error: Exception, write: PendingWrite) -> bool:
        """Whether a write that was refused with this error can be sent again."""
        text = str(error)
        return text.startswith("NOSCRIPT") or (
            text.startswith("OOM") and self._writing.history.drop(connection, write[5])
        )

    def _show_refusals(self, replies: Sequence[Reply]) -> bool:
        """Shows the revisions in refusals; returns False when some have none (the object is gone, or an account is outdated)."""
        assert self._shared is not None
        known = True
        for reply in replies:
            if type(reply) is not int or reply == 0:
                known = False
            elif reply < 0:
                self._shared.show(-reply)
        return known

    def _when_shown(self, deferred: Deferred[Reply], answer: Reply, otherwise: StoreError | None) -> None:
        """Replies once every revision that the answer may contain is shown; with ``otherwise``, if given, when that fails."""

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
        """Repairs the stream when a foreign entry prevents all further changes."""
        try:
            if self._connection is not None:
                await repair(self._connection, self._keys, self._skipped)
        except ConnectionGone:
            pass
        finally:
            self._repairing = False

    def interpret(self, error: Exception) -> StoreError:
        """The store error for an error of the server or the connection."""
        text = explain(error)
        if text.startswith(RECONNECT) and self._connection is not None:
            self._connection.abort(text)  # reconnecting checks the server
        if text.startswith("OOM"):
            return StoreFull(f"{self.where}: {FULL}")
        return StoreUnavailable(f"{self.where}: {text}")
