"""Reading all there is, and what came since: at start and after the connection was away.

The objects are scanned while others may write; the changes since the scan began are then applied to what was seen,
which gives the state at one revision.  The changes that are still known go along as history.

Where replicas have to confirm what is shown (docs/adr/0016), the follower gets no state that is not, and the changes it
missed are left to who reads on from there.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence

from twisted.internet.defer import Deferred, execute
from twisted.logger import Logger

from kapi.request.call import Call
from kapi.store.connection import Connection
from kapi.store.entries import Skipped, counter_of, identifier_of, size_of
from kapi.store.interface import DELETED, Change, Follower, StoredObject
from kapi.store.paging import Paging
from kapi.store.repair import check_types, repair
from kapi.store.reply import Reply
from kapi.store.script import Keys

log = Logger()

PAGE = 1000  # changes, when they are small
_SCAN_COUNT = 500  # objects


class Progress:
    """How far a follower has been fed, and of which history."""

    def __init__(self, follower: Follower, skipped: Skipped | None = None, call: Call = execute) -> None:
        self.follower = follower
        #: waits for what the follower needs to understand objects and changes; None when that is nothing
        self.prepare: Callable[[Iterable[StoredObject | Change]], Awaitable[None]] | None = None
        self.call = call  # runs what takes long
        self.fed = False  # everything was loaded before
        self.skipped = skipped if skipped is not None else Skipped()
        self.loaded = False
        self.revision = 0
        self.newest: Change | None = None  # the last change, to recognise the history by
        self.run = b""  # what the history's store calls itself, likewise

    def advance(self, changes: list[Change]) -> bool:
        """Feeds further changes; False when one is missing before them, or the follower failed: load everything."""
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


#: done once replicas have all that the store had at the call
Confirm = Callable[[], Awaitable[object]]


async def synchronize(
    connection: Connection, keys: Keys, progress: Progress, where: str = "the store", confirm: Confirm | None = None
) -> None:
    """Brings the follower up to date: by the changes it missed, else by everything.

    With ``confirm`` the missed changes are not read, only found to be there.  Raises UnsuitableStore, and StoreUnavailable
    when nothing is confirmed.
    """
    await check_types(connection, keys, where)
    await repair(connection, keys, progress.skipped)
    run = await _identify(connection, keys)
    if progress.loaded and run == progress.run and await _continues(connection, keys, progress):
        paging = Paging(PAGE)
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
        await confirm()  # while nothing is confirmed, nothing large is read and held
    await _load(connection, keys, progress, run, confirm)


async def position(connection: Connection, keys: Keys) -> tuple[int, bytes]:
    """The revision counter, and what the store calls itself: by these a store that went back is recognised."""
    counter, run = await connection.execute_command("MGET", keys.revision, keys.run)
    return counter_of(counter), run or b""


async def continues(connection: Connection, keys: Keys, revision: int, newest: Change | None) -> bool:
    """Whether the store's history can be the one whose change at ``revision`` we know; nothing to compare is True.

    A change that was compacted has no content: if more than that one is gone, the gap will be seen.
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
    """The store's own name: random, given when it has none, and gone with everything else when it is emptied."""
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
    """Whether the server's history is the one we know, and nothing we have not seen was trimmed from it."""
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
    paging = Paging(PAGE)
    reply = _entries(connection, keys, paging, 0)
    while True:
        entries = await reply
        if not entries:
            break
        paging.took(len(entries), size_of(entries))
        reply = _entries(connection, keys, paging, *identifier_of(entries[-1]))
        connection.depart()
        history += _brought_up_to_date(found, progress.skipped.changes(entries), counter)
    if confirm is not None:
        await confirm()
    if progress.prepare is not None:
        await progress.prepare([*found.values(), *history])
    progress.run = run
    feed = progress.call if progress.fed else execute  # at the start nobody else waits
    progress.fed = True
    await feed(_feed, progress, found, history, counter)


def _feed(progress: Progress, found: dict[str, StoredObject], history: list[Change], counter: int) -> None:
    """The follower gets the objects, and the history without gaps.  Nobody else may change ``found``."""
    known = _without_gaps(history)
    revision = max(known[-1].revision if known else 0, counter)
    newest_change = known[-1] if known and known[-1].revision == revision else None
    progress.loaded = False  # a follower that fails here has neither the old state nor the new one
    progress.follower.reset(found.values(), known if newest_change is not None else [], revision)
    progress.revision, progress.newest = revision, newest_change
    progress.loaded = True


def _brought_up_to_date(found: dict[str, StoredObject], changes: Iterable[Change], counter: int) -> list[Change]:
    """Applies to what was scanned what has happened since; answers the changes, whose bytes are those of the objects.

    ``counter`` is the revision before the scan.  What objects and changes have in common would be there twice until the
    follower has made one of them: of 100,000 new objects 130 MB.
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
    """By key the objects whose key begins so, or all; each at some revision of the time that the scan takes."""
    found: dict[str, StoredObject] = {}
    match = ("MATCH", _escaped(prefix) + "*") if prefix else ()
    paging = Paging(_SCAN_COUNT)
    reply = connection.execute_command("HSCAN", keys.objects, 0, *match, "COUNT", paging.count)
    while True:
        cursor, flat = await reply
        if cursor != b"0":
            paging.took(paging.count, sum(map(len, flat)))
            reply = connection.execute_command("HSCAN", keys.objects, cursor, *match, "COUNT", paging.count)
            connection.depart()  # the server finds these while what it has found is read
        for obj in skipped.objects(flat):
            found[obj.key] = obj
        if cursor == b"0":
            return found


def _escaped(text: str) -> str:
    """A prefix in which nothing is a pattern."""
    return "".join(f"\\{char}" if char in "*?[]\\^-" else char for char in text)


def _without_gaps(history: list[Change]) -> list[Change]:
    """The part of the history after its last gap."""
    for position in range(len(history) - 1, 0, -1):
        if history[position].revision != history[position - 1].revision + 1:
            return history[position:]
    return history
