"""Sending writes, and handling those that the server refused.

The server refuses a write before it changes anything (see ``kapi.store.script``).  So the write can be sent again, or fail with
StoreUnavailable.  While the server refuses all writes (memory, disk, a foreign entry in the stream), a probe finds out whether
they work again.  At the server's ``maxmemory`` see ``kapi.store.memory_limit``.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable, Sequence

from twisted.internet import defer
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.store.connection import Connection, Pending, PendingWrite
from kapi.store.errors import KeyExists, KeyMissing, Outdated, RevisionConflict, StoreError, StoreFull
from kapi.store.interface import CREATED, DELETED, Charge, Deletion
from kapi.store.memory_limit import History, has_space
from kapi.store.reply import Reply
from kapi.store.script import ALLOWED_SHA, DELETIONS, DELETIONS_SHA, PROBE, SCRIPTS, SHA, Keys
from kapi.store.suitability import read_info

log = Logger()

_SCRIPT_LINE = re.compile(r" script: (?:[0-9a-f]{40}, )?on @\w+:\d+\.?$")
_NOTHING = (b"", b"")  # a deletion has neither an expiry nor charges
#: errors after which reconnecting helps, or names the missing right: the last two are of scripts, in Valkey and Redis.  Other
#: errors are problems of the server, and affect all writes
RECONNECT = (
    "READONLY", "LOADING", "NOAUTH", "NOPERM", "ERR ACL failure in script", "ERR The user executing the script can't",
)  # fmt: skip


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
        log.error("the store takes writes again")  # at the level at which the refusal was logged

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
