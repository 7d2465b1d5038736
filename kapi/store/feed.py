"""The feed of a store: the follower gets each change once, in order, without gaps.

A server that several processes write to is read by a blocking XREAD; of one that nobody else writes to, the replies
to its own writes are the changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twisted.internet import defer
from twisted.logger import Logger

from kapi.store.connection import Connection, ConnectionGone, Pending
from kapi.store.interface import Change
from kapi.store.loading import Progress
from kapi.store.script import Keys, read_entry

log = Logger()

BLOCK = 5.0  # seconds an XREAD waits: it doubles as a sign of life
_READ_AT_ONCE = 2000  # changes


class StreamReader:
    """Asks one connection for the next changes, again and again; ends the connection when it cannot go on."""

    def __init__(self, connection: Connection, keys: Keys, progress: Progress) -> None:
        self._connection = connection
        self._keys = keys
        self._progress = progress

    def read(self) -> None:
        asked: defer.Deferred[Any] = self._connection.execute_command(
            "XREAD",
            "COUNT",
            _READ_AT_ONCE,
            "BLOCK",
            int(BLOCK * 1000),
            "STREAMS",
            self._keys.stream,
            f"{self._progress.revision}-0",
        )
        asked.addCallbacks(self._received, self._failed)

    def _received(self, reply: Any) -> None:
        if reply:
            changes = [read_entry(entry) for entry in reply[0][1]]
            if not self._progress.advance(changes):
                log.error("the store's history has a gap; loading everything again")
                self._connection.abort()
                return
        self.read()

    def _failed(self, failure: Any) -> None:
        if not failure.check(ConnectionGone):
            log.error("reading the store's history failed: {error}", error=failure.getErrorMessage())
        self._connection.abort()


def written(batch: Iterable[tuple[Pending, Any]]) -> list[Change]:
    """The changes that the replies to one's own writes report."""
    return [
        Change(reply, write[0], write[1], write[3] + b"%d" % reply + write[4])
        for (_, write), reply in batch
        if write is not None and type(reply) is int and reply > 0
    ]
