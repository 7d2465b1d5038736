"""A store in memory: what tests and throw-away servers use; same contract as the Redis store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kapi.store.entries import Skipped
from kapi.store.errors import KeyExists, KeyMissing, Outdated, RevisionConflict
from kapi.store.interface import CREATED, DELETED, UPDATED, Change, Charge, Follower, StoredObject
from kapi.store.size import MAX_OBJECT_BYTES, check_size
from kapi.store.sweeper import Due, Sweeper


class MemoryStore:
    """``reactor`` is wanted for expiry only; ``clock`` gives unix seconds."""

    exclusive = True
    resets = 0
    max_object_bytes = MAX_OBJECT_BYTES

    def __init__(self, reactor: Any = None, clock: Callable[[], float] = time.time) -> None:
        self.skipped = Skipped()
        self._objects: dict[str, tuple[int, bytes, bytes]] = {}
        self._expires: dict[str, float] = {}
        self._changes: deque[Change] = deque()
        self._revision = 0
        self._counted: dict[str, int] = {}  # account -> revision of its last count
        self._charged: dict[str, int] = {}  # account -> revision of the last object that was charged to it
        self._follower: Follower | None = None
        self._sweeper = Sweeper(self, reactor, clock) if reactor is not None else None

    @property
    def available(self) -> bool:
        return True

    def checks(self) -> dict[str, Callable[[], str]]:
        return {}

    async def start(self, follower: Follower | None = None) -> None:
        self._follower = follower
        if follower is not None:
            objects = [
                StoredObject(key, rev, _splice(head, rev, tail)) for key, (rev, head, tail) in self._objects.items()
            ]
            follower.reset(objects, list(self._changes), self._revision)
        if self._sweeper is not None:
            self._sweeper.start()

    async def stop(self) -> None:
        self._follower = None
        if self._sweeper is not None:
            self._sweeper.stop()

    async def create(
        self, key: str, head: bytes, tail: bytes, *, expires: float | None = None, charges: Sequence[Charge] = ()
    ) -> int:
        self._check_size(key, head, tail)
        stored = self._objects.get(key)
        if stored is not None:
            raise KeyExists(key, stored[0])
        self._check_accounts(key, charges, None)
        revision = self._write(CREATED, key, head, tail, expires)
        self._note_accounts(key, charges, None, revision)
        return revision

    async def update(
        self,
        key: str,
        expected: int,
        head: bytes,
        tail: bytes,
        *,
        expires: float | None = None,
        charges: Sequence[Charge] = (),
        counted: int | None = None,
        replaced: int = 0,
        going: bool = False,
    ) -> int:
        self._check_size(key, head, tail, replaced, going)
        self._compare(key, expected)
        self._check_accounts(key, charges, counted)
        revision = self._write(UPDATED, key, head, tail, expires)
        self._note_accounts(key, charges, counted, revision)
        return revision

    async def delete(self, key: str, expected: int, head: bytes, tail: bytes) -> int:
        self._compare(key, expected)
        self._counted.pop(key, None)
        self._charged.pop(key, None)
        return self._write(DELETED, key, head, tail, None)

    async def get(self, key: str) -> StoredObject | None:
        stored = self._objects.get(key)
        if stored is None:
            return None
        revision, head, tail = stored
        return StoredObject(key, revision, _splice(head, revision, tail))

    async def revision(self) -> int:
        return self._revision

    def stale(self, key: str) -> bool:
        return False

    async def scan(self, prefix: str) -> list[StoredObject]:
        return [
            StoredObject(key, revision, _splice(head, revision, tail))
            for key, (revision, head, tail) in self._objects.items()
            if key.startswith(prefix)
        ]

    async def compact(self, revision: int) -> None:
        changes = self._changes
        while len(changes) > 1 and changes[0].revision <= revision:
            changes.popleft()

    async def due(self, now: float, limit: int) -> list[Due]:
        """What has expired, for the sweeper."""
        keys = [key for key, expires in self._expires.items() if expires <= now][:limit]
        return [Due(key, *self._objects[key]) for key in keys]

    def _check_size(self, key: str, head: bytes, tail: bytes, replaced: int = 0, going: bool = False) -> None:
        limit, size = self.max_object_bytes, len(head) + len(tail)
        if size > limit and limit:
            check_size(key, size, limit, replaced, going)

    def _compare(self, key: str, expected: int) -> None:
        stored = self._objects.get(key)
        if stored is None:
            raise KeyMissing(key)
        if stored[0] != expected:
            raise RevisionConflict(key, expected, stored[0])

    def _check_accounts(self, key: str, charges: Sequence[Charge], counted: int | None) -> None:
        if counted is not None and self._charged.get(key, 0) > counted:
            raise Outdated(key)
        if any(self._counted.get(account, 0) > revision for account, revision in charges):
            raise Outdated(key)

    def _note_accounts(self, key: str, charges: Sequence[Charge], counted: int | None, revision: int) -> None:
        if counted is not None:
            self._counted[key] = revision
        self._charged.update((account, revision) for account, _ in charges)

    def _write(self, kind: str, key: str, head: bytes, tail: bytes, expires: float | None) -> int:
        self._revision = revision = self._revision + 1
        if kind == DELETED:
            del self._objects[key]
            self._expires.pop(key, None)
        else:
            self._objects[key] = (revision, head, tail)
            if expires is not None:
                self._expires[key] = expires
        change = Change(revision, kind, key, _splice(head, revision, tail))
        self._changes.append(change)
        if self._follower is not None:
            self._follower.changed([change])
        return revision


def _splice(head: bytes, revision: int, tail: bytes) -> bytes:
    return head + str(revision).encode() + tail
