"""Reading all there is, and what came since: at start and after the connection was away.

The objects are scanned while others may write; the changes since the scan began are then applied to what was seen,
which gives the state at one revision.  The changes that are still known go along as history.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapi.store.connection import Connection
from kapi.store.interface import DELETED, Change, Follower, StoredObject
from kapi.store.script import Keys, read_entry, read_value

PAGE = 1000
_SCAN = 500


class Progress:
    """How far a follower has been fed."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.loaded = False
        self.revision = 0
        self.newest: Change | None = None  # the last change, to recognise the history by

    def advance(self, changes: list[Change]) -> bool:
        """Feeds further changes; False when one is missing before them."""
        for expected, change in enumerate(changes, self.revision + 1):
            if change.revision != expected:
                return False
        if changes:
            self.revision = changes[-1].revision
            self.newest = changes[-1]
            self.follower.changed(changes)
        return True


async def synchronize(connection: Connection, keys: Keys, progress: Progress) -> None:
    """Brings the follower up to date: by the changes it missed, else by everything."""
    if progress.loaded and await _continues(connection, keys, progress):
        while True:
            counter = await _counter(connection, keys)
            page = await read_changes(connection, keys, progress.revision)
            if not progress.advance(page):
                break
            if progress.revision >= counter:
                return
            if not page:
                break
    await _load(connection, keys, progress)


async def read_changes(connection: Connection, keys: Keys, after: int) -> list[Change]:
    """A page of the changes after a revision."""
    entries = await connection.execute_command("XRANGE", keys.stream, f"({after}-0", "+", "COUNT", PAGE)
    return [read_entry(entry) for entry in entries]


async def _counter(connection: Connection, keys: Keys) -> int:
    return int(await connection.execute_command("GET", keys.revision) or 0)


async def _continues(connection: Connection, keys: Keys, progress: Progress) -> bool:
    """Whether the server's history is the one we know, and nothing we have not seen was trimmed from it."""
    if progress.newest is None:
        return progress.revision == 0
    at = f"{progress.revision}-0"
    entries = await connection.execute_command("XRANGE", keys.stream, at, at)
    return bool(entries) and read_entry(entries[0]) == progress.newest


async def _load(connection: Connection, keys: Keys, progress: Progress) -> None:
    counter = await _counter(connection, keys)
    found: dict[str, StoredObject] = {}
    cursor: bytes | int = 0
    while True:
        cursor, flat = await connection.execute_command("HSCAN", keys.objects, cursor, "COUNT", _SCAN)
        for obj in _pairs(flat):
            found[obj.key] = obj
        if cursor == b"0":
            break
    history: list[Change] = []
    last = 0
    while True:
        page = await read_changes(connection, keys, last)
        if not page:
            break
        history.extend(page)
        last = page[-1].revision
    for change in history:
        seen = found.get(change.key)
        if seen is not None and seen.revision >= change.revision:
            continue
        if change.kind == DELETED:
            found.pop(change.key, None)
        elif change.revision > counter or seen is not None:
            found[change.key] = StoredObject(change.key, change.revision, change.data)
        # else: the scan did not see it, so a later change in the history deletes it
    progress.revision = max(last, counter)
    progress.newest = history[-1] if history else None
    progress.loaded = True
    progress.follower.reset(found.values(), history, progress.revision)


def _pairs(flat: list[bytes]) -> Iterator[StoredObject]:
    for position in range(0, len(flat), 2):
        yield read_value(flat[position], flat[position + 1])
