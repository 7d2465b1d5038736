"""Synchronizes the follower with the store, at start and after the connection was lost.

All objects are scanned while others may write; then the changes since the beginning of the scan are applied.  The result is the
state at one revision.  The changes that are still known are passed on as history.

With replicas that must confirm writes (docs/adr/0016), the follower only gets confirmed states.  Changes that it missed are
then not read here but by ``StreamReader``.

A reply is read, copied and processed as a whole: ``Paging`` keeps replies at a few megabytes.  With 500 objects of 3 MB each a
reply would be 1.5 GB, and take seconds in which no other request is served.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence

from twisted.internet.defer import Deferred, execute
from twisted.logger import Logger

from kapi.process.driver import Call
from kapi.store.connection import Connection
from kapi.store.entries import Reply, Skipped, counter_of, identifier_of, size_of
from kapi.store.interface import DELETED, Change, Follower, StoredObject
from kapi.store.repair import check_types, repair
from kapi.store.script import Keys

REPLY_BYTES = 4 * 1024 * 1024  # a reply should not exceed this by much
FIRST_COUNT = 16  # entries in the first request, when their size is not known
log = Logger()
MAX_PAGE_CHANGES = 1000  # changes read at once, when they are small
_SCAN_COUNT = 500  # objects scanned at once, when they are small
#: waits until replicas have everything that the store had at the call
Confirm = Callable[[], Awaitable[object]]


class Paging:
    """``count`` is how many entries to request next, at most ``max_count``."""

    def __init__(self, max_count: int, first: int = FIRST_COUNT) -> None:
        self._max_count = max_count
        self._first = min(first, max_count)
        self.count = self._first

    def took(self, entries: int, size: int) -> None:
        """Adapts ``count`` after a full reply of so many entries and bytes: the next ones are assumed to be as large."""
        if size > REPLY_BYTES:
            self.count = max(1, min(self.count, entries) * REPLY_BYTES // size)
        elif size <= REPLY_BYTES // 2:
            self.count = min(self._max_count, 2 * self.count)

    def reached(self, entries: int) -> None:
        """Adapts ``count`` after a reply with all entries that there are: the size of the next ones is not known."""
        self.count = min(self.count, max(self._first, 2 * entries))


class Progress:
    """Up to which revision, and with which history, a follower has been fed."""

    def __init__(self, follower: Follower, skipped: Skipped | None = None, call: Call = execute) -> None:
        self.follower = follower
        #: gets the encryption keys that objects and changes need; None without encryption
        self.prepare: Callable[[Iterable[StoredObject | Change]], Awaitable[None]] | None = None
        self.call = call  # runs long computations in slices
        self.fed = False  # whether the follower has been loaded before
        self.skipped = skipped if skipped is not None else Skipped()
        self.loaded = False  # whether the follower is loaded; False: load everything again
        self.revision = 0
        self.newest: Change | None = None  # the last change, to recognise the history by
        self.run = b""  # the identifier of the store's contents, also to recognise the history by

    def advance(self, changes: list[Change]) -> bool:
        """Passes further changes on; False when one is missing or the follower failed: everything must be loaded again."""
        for expected, change in enumerate(changes, self.revision + 1):
            if change.revision != expected:
                return False
        if changes:
            try:
                self.follower.changed(changes)
            except Exception:
                log.failure("a follower of the store failed; it gets everything again")
                self.loaded = False
                return False
            self.newest = changes[-1]
            self.revision = changes[-1].revision
        return True


async def synchronize(
    connection: Connection, keys: Keys, progress: Progress, where: str = "the store", confirm: Confirm | None = None
) -> None:
    """Brings the follower up to date: by the changes that it missed, else by loading everything.

    With ``confirm`` the missed changes are not read; it is only checked that they exist.  Raises UnsuitableStore, and
    StoreUnavailable when nothing can be confirmed.
    """
    await check_types(connection, keys, where)
    await repair(connection, keys, progress.skipped)
    run = await _identify(connection, keys)
    if progress.loaded and run == progress.run and await _continues(connection, keys, progress):
        paging = Paging(MAX_PAGE_CHANGES)
        while True:
            counter, _ = await position(connection, keys)
            entries = await _entries(connection, keys, paging, progress.revision)
            paging.took(len(entries), size_of(entries))
            page = progress.skipped.changes(entries)
            if confirm is not None:
                if page[0].revision == progress.revision + 1 if page else progress.revision >= counter:
                    return
                break
            if progress.prepare is not None:
                await progress.prepare(page)
            if not progress.advance(page):
                break
            if progress.revision >= counter:
                return
            if not page:
                break
    if confirm is not None:
        await confirm()  # first, so that large data are not read in vain and held in memory
    await _load(connection, keys, progress, run, confirm)


async def position(connection: Connection, keys: Keys) -> tuple[int, bytes]:
    """The revision counter and the identifier of the store's contents; they tell whether a store has lost data."""
    counter, run = await connection.execute_command("MGET", keys.revision, keys.run)
    return counter_of(counter), run or b""


async def continues(connection: Connection, keys: Keys, revision: int, newest: Change | None) -> bool:
    """Whether the store's history can be the one with the change ``newest`` at ``revision``; True when that is None.

    A change that was compacted cannot be compared.  If later ones are gone as well, that is found as a gap.
    """
    if newest is None:
        return True
    at = f"{revision}-0"
    entries = await connection.execute_command("XRANGE", keys.stream, at, at)
    if not entries:
        oldest = await connection.execute_command("XRANGE", keys.stream, "-", "+", "COUNT", 1)
        return bool(oldest) and identifier_of(oldest[0])[0] > revision
    return Skipped().changes(entries) == [newest]


async def _identify(connection: Connection, keys: Keys) -> bytes:
    """The random identifier of the store's contents, made when there is none.  It is lost with the contents."""
    run = (await position(connection, keys))[1]
    if run:
        return run
    await connection.execute_command("SET", keys.run, secrets.token_hex(16), "NX")
    return (await position(connection, keys))[1]


def _entries(
    connection: Connection, keys: Keys, paging: Paging, after: int, sequence: int = 0
) -> Deferred[list[Sequence[Reply]]]:
    return connection.execute_command("XRANGE", keys.stream, f"({after}-{sequence}", "+", "COUNT", paging.count)


async def _continues(connection: Connection, keys: Keys, progress: Progress) -> bool:
    """Whether the server's history is the known one, and no change that we missed was trimmed from it."""
    counter, _ = await position(connection, keys)
    if counter < progress.revision or progress.newest is None:
        return counter == progress.revision
    return await continues(connection, keys, progress.revision, progress.newest)


async def _load(connection: Connection, keys: Keys, progress: Progress, run: bytes, confirm: Confirm | None) -> None:
    counter, _ = await position(connection, keys)
    found = await scan(connection, keys, progress.skipped)
    newest = max((obj.revision for obj in found.values()), default=0)
    if newest > (await position(connection, keys))[0]:
        await repair(connection, keys, progress.skipped, newest)
        counter = newest
    history: list[Change] = []
    paging = Paging(MAX_PAGE_CHANGES)
    reply = _entries(connection, keys, paging, 0)
    while True:
        entries = await reply
        if not entries:
            break
        paging.took(len(entries), size_of(entries))
        reply = _entries(connection, keys, paging, *identifier_of(entries[-1]))
        connection.flush()
        history += _brought_up_to_date(found, progress.skipped.changes(entries), counter)
    if confirm is not None:
        await confirm()
    if progress.prepare is not None:
        await progress.prepare([*found.values(), *history])
    progress.run = run
    feed = progress.call if progress.fed else execute  # at the start there are no other tasks, so no slices are needed
    progress.fed = True
    gap = await feed(_feed, progress, found, history, counter)
    if gap is not None:
        await _tell_of_gap(connection, keys, gap)


async def _tell_of_gap(connection: Connection, keys: Keys, last: int) -> None:
    """Logs that changes after ``last`` are missing, unless it was compacted together with them while it was read."""
    if await connection.execute_command("XRANGE", keys.stream, f"{last}-0", f"{last}-0"):
        log.error(
            "changes after revision {last} are missing in the middle of the store's history: somebody deleted them, or this is a "
            "copy that was made while its files were rewritten, and objects may be missing, too; restore another copy",
            last=last,
        )


def _feed(progress: Progress, found: dict[str, StoredObject], history: list[Change], counter: int) -> int | None:
    """Passes the objects and the history without gaps to the follower.  ``found`` must not be changed meanwhile.

    Returns the revision before the last gap; None when there is none.
    """
    known = _without_gaps(history)
    gap = history[-len(known) - 1].revision if len(known) < len(history) else None
    revision = max(known[-1].revision if known else 0, counter)
    newest_change = known[-1] if known and known[-1].revision == revision else None
    progress.loaded = False  # a follower that fails here has neither the old state nor the new one
    progress.follower.reset(found.values(), known if newest_change is not None else [], revision)
    progress.revision, progress.newest = revision, newest_change
    progress.loaded = True
    return gap


def _brought_up_to_date(found: dict[str, StoredObject], changes: Iterable[Change], counter: int) -> list[Change]:
    """Applies changes to the scanned objects; returns the changes.

    ``counter`` is the revision before the scan.  The returned changes share their bytes with the objects.  Otherwise the data of
    recent objects would be in memory twice: 130 MB for 100,000 objects.
    """
    shared = []
    for change in changes:
        seen = found.get(change.key)
        if seen is None:
            if change.kind != DELETED and change.revision > counter:
                found[change.key] = StoredObject(change.key, change.revision, change.data)
            # else: the scan did not see it, so a later change in the history deletes it
        elif seen.revision == change.revision:
            change = Change(change.revision, change.kind, seen.key, seen.data)
        elif seen.revision < change.revision and (seen.revision != 0 or change.revision > counter):
            if change.kind == DELETED:
                del found[change.key]
            else:
                found[change.key] = StoredObject(change.key, change.revision, change.data)
        shared.append(change)
    return shared


async def scan(connection: Connection, keys: Keys, skipped: Skipped, prefix: str = "") -> dict[str, StoredObject]:
    """The objects whose keys have the prefix, by key; each at some revision during the scan."""
    found: dict[str, StoredObject] = {}
    match = ("MATCH", _escaped(prefix) + "*") if prefix else ()
    paging = Paging(_SCAN_COUNT)
    reply = connection.execute_command("HSCAN", keys.objects, 0, *match, "COUNT", paging.count)
    while True:
        cursor, flat = await reply
        if cursor != b"0":
            paging.took(paging.count, sum(map(len, flat)))
            reply = connection.execute_command("HSCAN", keys.objects, cursor, *match, "COUNT", paging.count)
            connection.flush()  # the server works on the next page while this one is parsed
        for obj in skipped.objects(flat):
            found[obj.key] = obj
        if cursor == b"0":
            return found


def _escaped(text: str) -> str:
    """The text with the special characters of patterns escaped."""
    return "".join(f"\\{char}" if char in "*?[]\\^-" else char for char in text)


def _without_gaps(history: list[Change]) -> list[Change]:
    """The part of the history after its last gap."""
    for position in range(len(history) - 1, 0, -1):
        if history[position].revision != history[position - 1].revision + 1:
            return history[position:]
    return history
