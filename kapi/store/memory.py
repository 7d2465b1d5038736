"""A store in memory, for tests and logical clusters; it has the same contract as the Redis store.

A ``Snapshot`` of one refers to its tables, one for each resource.  Stores that are made from a snapshot share its tables
(copy-on-write).
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from twisted.internet.defer import execute
from twisted.internet.interfaces import IReactorTime

from kapi.process.driver import Call
from kapi.store.entries import Skipped
from kapi.store.errors import Compacted, KeyExists, KeyMissing, Outdated, RevisionConflict, StoreError, StoreUnavailable
from kapi.store.interface import (
    CREATED,
    DELETED,
    MAX_OBJECT_BYTES,
    UPDATED,
    Change,
    Charge,
    Deletion,
    Follower,
    StoredObject,
    check_size,
)
from kapi.store.sweeper import Due, Sweeper
from kapi.store.table import Table, Value, place_of


class Snapshot(NamedTuple):
    """The contents of a store at a revision: never change it."""

    revision: int
    tables: Mapping[str, Table]
    expires: Mapping[str, float]  # unix seconds
    counted: Mapping[str, int]
    charged: Mapping[str, int]
    foreign: bool = False  # whether another process wrote some of it
    realm: str = ""  # of the store that it was taken of

    @property
    def size(self) -> int:
        """The number of objects."""
        return sum(map(len, self.tables.values()))

    def values(self) -> Iterator[Value]:
        """All objects."""
        return chain.from_iterable(table.values() for table in self.tables.values())

    def get(self, key: str) -> Value | None:
        table = self.tables.get(place_of(key))
        return None if table is None else table.get(key)

    def with_objects(self, values: Iterable[Value]) -> Snapshot:
        """A snapshot with objects added or replaced."""
        tables: dict[str, Table] = dict(self.tables)
        for value in values:
            place = place_of(value.key)
            table = tables.get(place)
            if table is None or table is self.tables.get(place):
                table = tables[place] = Table(table or ())
            table[value.key] = value
        return self._replace(tables=tables)


class MemoryStore:
    """``reactor`` is only needed for expiry; ``clock`` returns unix seconds.

    ``snapshot`` has the initial contents and revision.
    """

    exclusive = True
    resets = 0
    run = b""  # not needed: no other process can use this store
    max_object_bytes = MAX_OBJECT_BYTES

    def __init__(
        self,
        reactor: IReactorTime | None = None,
        clock: Callable[[], float] = time.time,
        *,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.skipped = Skipped()
        self._tables: dict[str, Table] = dict(snapshot.tables) if snapshot is not None else {}
        self._unshared: set[str] = set()  # the tables that only this store has, so that it may change them
        self._expires: dict[str, float] = dict(snapshot.expires) if snapshot is not None else {}
        self._changes: deque[Change] = deque()
        self._revision = snapshot.revision if snapshot is not None else 0
        self.foreign = snapshot is not None and snapshot.foreign
        #: tokens of ServiceAccounts are good for stores of the same realm: this one, and those made from its snapshots
        self.realm = (snapshot.realm if snapshot is not None else "") or secrets.token_hex(8)
        #: account -> revision of its last count
        self._counted: dict[str, int] = dict(snapshot.counted) if snapshot is not None else {}
        #: account -> revision of the last object that was charged to it
        self._charged: dict[str, int] = dict(snapshot.charged) if snapshot is not None else {}
        self._follower: Follower | None = None
        self._started: Follower | None = None  # the follower from the beginning of ``start`` on
        self._retired = ""  # why nothing is written any more
        self.call: Call = execute  # runs long computations in slices
        self._sweeper = Sweeper(self, reactor, clock) if reactor is not None else None

    @property
    def available(self) -> bool:
        return True

    @property
    def silence(self) -> float:
        return 0.0

    def checks(self) -> dict[str, Callable[[], str]]:
        return {}

    async def start(self, follower: Follower | None = None) -> None:
        self._started = follower
        if follower is not None:
            objects = chain.from_iterable(table.values() for table in self.tables().values())
            history, revision = list(self._changes), self._revision
            await self.call(follower.reset, objects, history, revision)
            if self._started is not follower:  # it was stopped meanwhile
                return
            self._follower = follower
            newer = [change for change in self._changes if change.revision > revision]
            if newer:
                follower.changed(newer)
        if self._sweeper is not None:
            self._sweeper.start()

    async def stop(self) -> None:
        self._follower = self._started = None
        if self._sweeper is not None:
            self._sweeper.stop()

    def retire(self, why: str) -> None:
        """Refuses all further writes: nobody would see them."""
        self._retired = why

    def changes(self, since: int, until: int) -> list[Change]:
        """The changes after ``since``, up to ``until``, oldest first.  Raises Compacted when some of them have been dropped."""
        floor = self._changes[0].revision - 1 if self._changes else self._revision
        if since < floor:
            raise Compacted(since, floor)
        return [change for change in self._changes if since < change.revision <= until]

    def data_of(self, key: str) -> bytes | None:
        """The stored bytes of an object; None when there is none."""
        value = self._value(key)
        return None if value is None else value.data

    def matching(self, prefix: str) -> list[tuple[str, bytes]]:
        """The keys with this prefix, and their stored bytes."""
        return [(value.key, value.data) for value in self._matching(prefix)]

    def tables(self) -> dict[str, Table]:
        """All tables; later writes do not change them."""
        self._unshared.clear()
        return dict(self._tables)

    def _value(self, key: str) -> Value | None:
        table = self._tables.get(place_of(key))
        return None if table is None else table.get(key)

    def _matching(self, prefix: str) -> Iterator[Value]:
        for place, table in self._tables.items():
            if place.startswith(prefix) or prefix.startswith(place):
                yield from (value for key, value in table.items() if key.startswith(prefix))

    def _changeable(self, key: str) -> Table:
        """The table of a key, copied first when it is shared."""
        place = place_of(key)
        table = self._tables.get(place)
        if table is None or place not in self._unshared:
            table = self._tables[place] = Table(table or ())
            self._unshared.add(place)
        return table

    @property
    def newest(self) -> int:
        """The revision of the last write."""
        return self._revision

    @property
    def expiring(self) -> bool:
        """Whether some objects expire."""
        return bool(self._expires)

    def snapshot(self) -> Snapshot:
        """The present contents."""
        return Snapshot(
            self._revision,
            self.tables(),
            dict(self._expires),
            dict(self._counted),
            dict(self._charged),
            self.foreign,
            self.realm,
        )

    async def create(
        self, key: str, head: bytes, tail: bytes, *, expires: float | None = None, charges: Sequence[Charge] = ()
    ) -> int:
        self._check_size(key, head, tail)
        stored = self._value(key)
        if stored is not None:
            raise KeyExists(key, stored.revision)
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

    async def delete_all(self, deletions: Sequence[Deletion]) -> list[int | StoreError]:
        results: list[int | StoreError] = []
        for deletion in deletions:
            try:
                results.append(await self.delete(*deletion))
            except (KeyMissing, RevisionConflict) as error:
                results.append(error)
        return results

    async def get(self, key: str) -> StoredObject | None:
        stored = self._value(key)
        if stored is None:
            return None
        return StoredObject(key, stored.revision, stored.data)

    async def revision(self) -> int:
        return self._revision

    def is_current(self, revision: int) -> bool:
        return self.exclusive

    def stale(self, key: str) -> bool:
        return False

    async def scan(self, prefix: str) -> list[StoredObject]:
        return [StoredObject(value.key, value.revision, value.data) for value in self._matching(prefix)]

    async def compact(self, revision: int) -> None:
        changes = self._changes
        while len(changes) > 1 and changes[0].revision <= revision:
            changes.popleft()

    async def due(self, now: float, limit: int) -> list[Due]:
        """The expired objects, at most ``limit``, for the sweeper."""
        keys = [key for key, expires in self._expires.items() if expires <= now][:limit]
        return [_due(value) for key in keys if (value := self._value(key)) is not None]

    def _check_size(self, key: str, head: bytes, tail: bytes, replaced: int = 0, going: bool = False) -> None:
        limit, size = self.max_object_bytes, len(head) + len(tail)
        if size > limit and limit:
            check_size(key, size, limit, replaced, going)

    def _compare(self, key: str, expected: int) -> None:
        stored = self._value(key)
        if stored is None:
            raise KeyMissing(key)
        if stored.revision != expected:
            raise RevisionConflict(key, expected, stored.revision)

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
        if self._retired:
            raise StoreUnavailable(self._retired)
        self._revision = revision = self._revision + 1
        value = Value.of(key, head, revision, tail)
        if kind == DELETED:
            del self._changeable(key)[key]
            self._expires.pop(key, None)
        else:
            self._changeable(key)[key] = value
            if expires is not None:
                self._expires[key] = expires
        change = Change(revision, kind, key, value.data)
        self._changes.append(change)
        if self._follower is not None:
            self._follower.changed([change])
        return revision


def _due(value: Value) -> Due:
    head, tail = value.data[: value.head], value.data[value.head + len(str(value.revision)) :]
    return Due(value.key, value.revision, head, tail)
