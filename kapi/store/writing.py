"""Sending a write, and what becomes of one that the server did not do.

The server refuses a write before it changes anything (see ``kapi.store.script``), so it may be sent again or answered
"not available". While writes are refused for a reason that lies with the server (memory, disk, a foreign entry in the
stream), a probe asks whether they work again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence

from twisted.internet import defer
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.store.connection import Connection, Pending, PendingWrite
from kapi.store.errors import KeyExists, KeyMissing, Outdated, RevisionConflict, StoreError
from kapi.store.interface import CREATED, DELETED, Charge, Deletion
from kapi.store.reply import Reply
from kapi.store.script import DELETION, DELETION_SHA, DELETIONS, DELETIONS_SHA, PROBE, SHA, SOURCE, Keys

log = Logger()

SCRIPTS = (SOURCE, DELETION, DELETIONS)
_NOTHING = (b"", b"")  # a deletion neither expires nor is charged
#: Errors after which connecting anew helps; others of a write lie with the server and meet all writes.
RECONNECT = ("READONLY", "LOADING", "NOAUTH", "NOPERM")


class Writing:
    """The writes of one store; ``failing`` says why the server refuses them, empty while it does not."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._names = keys[:5]
        self._probing = False
        self.failing = ""

    def send(
        self,
        connection: Connection,
        kind: str,
        key: str,
        expected: int,
        head: bytes,
        tail: bytes,
        expires: float | None,
        charges: Sequence[Charge],
        counted: int | None,
        known: int,
    ) -> defer.Deferred[int]:
        """``known`` is the newest revision that there is for certain."""
        deferred: defer.Deferred[int] = defer.Deferred()
        further = (
            b"" if expires is None else b"%.3f" % expires,
            b"" if counted is None else counted,
            *itertools.chain.from_iterable(charges),
        )
        sha = DELETION_SHA if kind == DELETED else SHA
        connection.send(
            (b"EVALSHA", sha, 5, *self._names, kind, key, expected, head, tail, *further),
            (deferred, (kind, key, expected, head, tail, time.perf_counter(), further, known)),
        )
        return deferred

    def send_deletions(
        self, connection: Connection, deletions: Sequence[Deletion], known: int
    ) -> defer.Deferred[Sequence[int | StoreError]]:
        """Of objects as they are stored: the server has their bytes."""
        deferred: defer.Deferred[Sequence[int | StoreError]] = defer.Deferred()
        sent = time.perf_counter()
        writes: list[PendingWrite] = [(DELETED, *deletion, sent, _NOTHING, known) for deletion in deletions]
        connection.send((b"EVALSHA", DELETIONS_SHA, 5, *self._names, *_compared(writes)), (deferred, writes))
        return deferred

    def send_again(self, connection: Connection, pending: Pending) -> None:
        """After NOSCRIPT: the script was forgotten, so nothing ran; it is sent along, and known again after that."""
        write = pending[1]
        assert write is not None
        if isinstance(write, list):
            connection.send((b"EVAL", DELETIONS, 5, *self._names, *_compared(write)), pending)
            return
        kind, key, expected, head, tail, _, further, _ = write
        source = DELETION if kind == DELETED else SOURCE
        connection.send((b"EVAL", source, 5, *self._names, kind, key, expected, head, tail, *further), pending)

    def refused_by_server(self, reason: str) -> None:
        """A write was answered with an error that is not about its object."""
        if self.failing != reason:
            self.failing = reason
            log.error("the store refuses writes: {why}", why=reason)

    def probe(self, connection: Connection) -> None:
        """Asks whether writes work, if they did not; one question at a time."""
        if not self.failing or self._probing:
            return
        self._probing = True
        asked = connection.execute_command("EVAL", PROBE, len(self._keys), *self._keys)
        asked.addCallbacks(self._works, self._still_failing, errbackArgs=(connection,))

    def _works(self, _: object) -> None:
        self._probing = False
        self.failing = ""
        log.info("the store takes writes again")

    def _still_failing(self, failure: Failure, connection: Connection) -> None:
        self._probing = False
        if not connection.gone:
            self.refused_by_server(failure.getErrorMessage())


def _compared(writes: Iterable[PendingWrite]) -> Iterable[str | int]:
    """Keys and the revisions that are expected."""
    return itertools.chain.from_iterable((key, expected) for _, key, expected, *_ in writes)


async def load_scripts(connection: Connection) -> None:
    for source in SCRIPTS:
        await connection.execute_command("SCRIPT", "LOAD", source)


def refusal_of(write: PendingWrite, reply: Reply) -> StoreError:
    """What the script's answer says about the object."""
    kind, key, expected = write[:3]
    if reply == b"outdated":
        return Outdated(key)
    if kind == CREATED:
        return KeyExists(key, -reply)
    if reply == 0:
        return KeyMissing(key)
    return RevisionConflict(key, expected, -reply)


def explain(error: Exception) -> str:
    """The server's words without the place in the script."""
    return str(error).partition(" script: ")[0]
