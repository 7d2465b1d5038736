"""The feed of a store: the follower gets each change once, in order, without gaps.

A server that several processes write to is read by a blocking XREAD; of one that nobody else writes to, the replies
to its own writes are the changes.  Upstream: client-go's Reflector: a change is applied first, then the position moves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

import txredisapi
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from kapi.store.connection import Connection, ConnectionGone, Pending
from kapi.store.entries import identifier_of, size_of
from kapi.store.errors import StoreUnavailable
from kapi.store.interface import Change
from kapi.store.loading import Progress, continues, position
from kapi.store.paging import Paging
from kapi.store.repair import repair
from kapi.store.reply import Reply
from kapi.store.script import Keys

log = Logger()

BLOCK = 5.0  # seconds an XREAD waits: it doubles as a sign of life
CHECK_EVERY = 1.0  # seconds between looks at whether the store still has the history that we know
_MAX_READ_CHANGES = 2000  # changes, when they are small
_MAX_REPAIRS = 3  # in a row, before the connection is made anew


class StreamReader:
    """Asks one connection for the next changes, again and again; ends the connection when it cannot go on."""

    def __init__(
        self,
        connection: Connection,
        keys: Keys,
        progress: Progress,
        confirmed: Callable[[int], Awaitable[bool]] | None = None,
    ) -> None:
        self._connection = connection
        self._keys = keys
        #: waits until fail-over cannot lose what is up to a revision; False when the counter has not come so far
        self._confirmed = confirmed
        self._progress = progress
        self._after = (
            progress.revision,
            0,
        )  # the id after which to read; beyond the revision when what is there is skipped
        self._repairs = 0
        self._running: Deferred[None] | None = None

    def start(self) -> None:
        self._running = Deferred.fromCoroutine(self._run())

    async def _run(self) -> None:
        connection, keys = self._connection, self._keys
        why = "its history is read anew"
        block = int(BLOCK * 1000)
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
        except txredisapi.ResponseError as error:  # the server's reason, as that it has become a replica
            log.error("reading the store's history was refused; it is begun anew: {error}", error=error)
            why = str(error)
        except Exception:
            log.failure("reading the store's history failed; it is begun anew")
        connection.abort(why)

    async def _take(self, entries: Sequence[Sequence[Reply]]) -> bool:
        """Hands the changes on; False when the follower has to be brought up to date by other means."""
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
        if last > self._after:  # something that is no change
            if last[0] <= progress.revision:
                self._after = last
            else:  # in the way of all further changes
                return await self._repair()
        self._repairs = 0
        return True

    async def _repair(self) -> bool:
        """False when that does not help."""
        self._repairs += 1
        await repair(self._connection, self._keys, self._progress.skipped)
        return self._repairs <= _MAX_REPAIRS


def written(batch: Iterable[tuple[Pending, Reply]]) -> list[Change]:
    """The changes that the replies to one's own writes report."""
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
    """The revisions that were given to one's own writes, each with the newest that was known when the write was sent."""
    found: list[tuple[int, int]] = []
    for (_, write), reply in batch:
        if type(write) is tuple:
            if type(reply) is int and reply > 0:
                found.append((reply, write[7]))
        elif type(write) is list and type(reply) is list:
            found += [(revision, one[7]) for one, revision in zip(write, reply, strict=True) if revision > 0]
    return found


class HistoryCheck:
    """Looks every second whether the store still has the history that the follower was fed.

    A store that was emptied, restored from an older copy, or replaced by a replica that lagged says nothing by
    itself.  ``connection`` answers the one to ask, None while there is none; ``went_back`` gets the reason.
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
        self._loop = LoopingCall(lambda: Deferred.fromCoroutine(self._look()))
        self._loop.clock = reactor

    def start(self) -> None:
        self._loop.start(CHECK_EVERY, now=False)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()

    async def _look(self) -> None:
        connection, progress = self._connection(), self._progress
        if connection is None or not progress.loaded:
            return
        revision, newest = progress.revision, progress.newest
        try:
            why = self.judge(revision, *await position(connection, self._keys))
            if not why and not await continues(connection, self._keys, revision, newest):
                why = f"its change {revision} is another or gone"
        except CancelledError:
            raise
        except Exception as error:  # the connection's end, or a server in trouble: others say so
            log.debug("the store's history was not checked: {error}", error=str(error))
            return
        if why and connection is self._connection():
            self._went_back(why)

    def judge(self, revision: int, counter: int, run: bytes) -> str:
        """Why a store with this counter and name is not the one that was at ``revision``; "" when it may be."""
        if run != self._progress.run:
            return "it is another one, or was emptied"
        if counter < revision:
            return f"it is at revision {counter}, and was at {revision}"
        return ""
