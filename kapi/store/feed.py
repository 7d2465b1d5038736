"""The feed of a store: the follower gets each change once, in order, without gaps.

When several processes write to the server, changes are read by a blocking XREAD.  When only this process does, the replies to
its own writes are the changes.  Upstream: client-go's Reflector, which also applies a change before it moves its position.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

import txredisapi
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.process.timers import Repeated
from kapi.store.connection import Connection, ConnectionGone, Pending
from kapi.store.entries import Reply, identifier_of, size_of
from kapi.store.errors import StoreUnavailable
from kapi.store.interface import Change
from kapi.store.loading import Paging, Progress, continues, position
from kapi.store.repair import repair
from kapi.store.script import Keys

log = Logger()

BLOCK_SECONDS = 5.0  # how long an XREAD waits; its replies also show that the server lives
CHECK_SECONDS = 1.0  # between checks that the store still has the known history
MAX_COMPARED_BYTES = 64 * 1024  # bytes of the newest change that may be read for each check
_MAX_READ_CHANGES = 2000  # the most changes in one XREAD, when they are small
_MAX_REPAIRS = 3  # repairs in a row; after these the connection is made again


class StreamReader:
    """Reads the next changes from one connection in a loop; ends the connection when that fails."""

    def __init__(
        self,
        connection: Connection,
        keys: Keys,
        progress: Progress,
        confirmed: Callable[[int], Awaitable[bool]] | None = None,
    ) -> None:
        self._connection = connection
        self._keys = keys
        #: waits until a fail-over cannot lose a revision; False when the revision counter is behind it
        self._confirmed = confirmed
        self._progress = progress
        self._after = (
            progress.revision,
            0,
        )  # the id after which to read; beyond ``progress.revision`` after skipped entries
        self._repairs = 0
        self._running: Deferred[None] | None = None

    def start(self) -> None:
        self._running = Deferred.fromCoroutine(self._run())

    async def _run(self) -> None:
        connection, keys = self._connection, self._keys
        why = "its history is read again"
        block = int(BLOCK_SECONDS * 1000)
        paging = Paging(_MAX_READ_CHANGES)
        try:
            while True:
                number, sequence = self._after
                reply = await connection.execute_command(
                    "XREAD", "COUNT", paging.count, "BLOCK", block, "STREAMS", keys.stream, f"{number}-{sequence}"
                )
                entries = reply[0][1] if reply else []
                if len(entries) < paging.count:
                    paging.reached(len(entries))
                else:
                    paging.took(len(entries), size_of(entries))
                if entries and not await self._take(entries):
                    break
        except CancelledError:
            raise
        except (ConnectionGone, StoreUnavailable):
            pass
        except txredisapi.ResponseError as error:  # such as READONLY: the server has become a replica
            log.error("reading the store's history was refused; it is started again: {error}", error=error)
            why = str(error)
        except Exception:
            log.failure("reading the store's history failed; it is started again")
        connection.abort(why)

    async def _take(self, entries: Sequence[Sequence[Reply]]) -> bool:
        """Passes the changes to the follower; False when that is impossible, and the follower must be synchronized again."""
        progress = self._progress
        changes = progress.skipped.changes(entries)
        if changes and self._confirmed is not None:
            while not await self._confirmed(changes[-1].revision):
                if not await self._repair():
                    return False
        if progress.prepare is not None:
            await progress.prepare(changes)
        if not progress.advance(changes):
            log.error("the store's history has a gap; loading everything again")
            return False
        self._after = (progress.revision, 0)
        last = identifier_of(entries[-1])
        if last > self._after:  # a foreign entry
            if last[0] <= progress.revision:
                self._after = last
            else:  # its id is beyond the revision counter, and prevents all further changes
                return await self._repair()
        self._repairs = 0
        return True

    async def _repair(self) -> bool:
        """Repairs the stream; False after too many repairs in a row."""
        self._repairs += 1
        await repair(self._connection, self._keys, self._progress.skipped)
        return self._repairs <= _MAX_REPAIRS


def written(batch: Iterable[tuple[Pending, Reply]]) -> list[Change]:
    """The changes that the replies to this process's writes report."""
    found: list[Change] = []
    for (_, write), reply in batch:
        if type(write) is tuple:
            if type(reply) is int and reply > 0:
                found.append(Change(reply, write[0], write[1], write[3] + b"%d" % reply + write[4]))
        elif type(write) is list and type(reply) is list:
            found += [
                Change(revision, kind, key, head + b"%d" % revision + tail)
                for (kind, key, _, head, tail, *_), revision in zip(write, reply, strict=True)
                if revision > 0
            ]
    return found


def granted(batch: Iterable[tuple[Pending, Reply]]) -> list[tuple[int, int]]:
    """The revisions of this process's writes, each with the newest one that was known when the write was sent."""
    found: list[tuple[int, int]] = []
    for (_, write), reply in batch:
        if type(write) is tuple:
            if type(reply) is int and reply > 0:
                found.append((reply, write[7]))
        elif type(write) is list and type(reply) is list:
            found += [(revision, one[7]) for one, revision in zip(write, reply, strict=True) if revision > 0]
    return found


class HistoryCheck:
    """Checks every second that the store still has the history that the follower has received.

    The newest change is read to be compared; a large one so rarely that it is MAX_COMPARED_BYTES a second.

    There is no other sign when a store was emptied, restored from an older copy, or replaced by a lagging replica.
    ``connection()`` returns the connection to use, None while there is none; ``went_back`` is called with the reason.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        keys: Keys,
        progress: Progress,
        connection: Callable[[], Connection | None],
        went_back: Callable[[str], None],
    ) -> None:
        self._keys = keys
        self._progress = progress
        self._connection = connection
        self._went_back = went_back
        self._allowance = 0  # bytes of a change that may be read
        self._loop = Repeated(
            lambda: Deferred.fromCoroutine(self._check_history()), reactor, "checking the store's history"
        )

    def start(self) -> None:
        self._loop.start(CHECK_SECONDS)

    def stop(self) -> None:
        self._loop.stop()

    async def _check_history(self) -> None:
        connection, progress = self._connection(), self._progress
        if connection is None or not progress.loaded:
            return
        revision, newest = progress.revision, progress.newest
        self._allowance += MAX_COMPARED_BYTES
        compares = newest is not None and len(newest.data) <= self._allowance
        if compares:
            self._allowance = 0
        try:
            why = self.judge(revision, *await position(connection, self._keys))
            if not why and compares and not await continues(connection, self._keys, revision, newest):
                why = f"its change {revision} is another one or gone"
        except CancelledError:
            raise
        except Exception as error:  # a lost connection or an error of the server, which is reported elsewhere
            log.debug("the store's history was not checked: {error}", error=str(error))
            return
        if why and connection is self._connection():
            self._went_back(why)

    def judge(self, revision: int, counter: int, run: bytes) -> str:
        """The reason why a store with this counter and ``run`` is not the store that was at ``revision``; "" when it may be."""
        if run != self._progress.run:
            return "it is another one, or was emptied"
        if counter < revision:
            return f"it is at revision {counter}, and was at {revision}"
        return ""
