"""A store in memory: what tests and logical clusters use; same contract as the Redis store.

A ``Snapshot`` of one is a copy of pointers to tables, one for each resource: the stores that were made from it share these
until one of them changes something.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from twisted.internet.defer import execute
from twisted.internet.interfaces import IReactorTime

from kapi.request.call import Call
from kapi.store.entries import Skipped
from kapi.store.errors import Compacted, KeyExists, KeyMissing, Outdated, RevisionConflict, StoreError
from kapi.store.interface import CREATED, DELETED, UPDATED, Change, Charge, Deletion, Follower, StoredObject
from kapi.store.size import MAX_OBJECT_BYTES, check_size
from kapi.store.sweeper import Due, Sweeper
from kapi.store.table import Table, place_of
from kapi.store.value import Value


class Snapshot(NamedTuple):
    """All that a store held at a revision: never change it."""

    revision: int
    tables: Mapping[str, Table]
    expires: Mapping[str, float]  # unix seconds
    counted: Mapping[str, int]
    charged: Mapping[str, int]
    foreign: bool = False  # some of it was written by another process

    @property
    def size(self) -> int:
        """How many objects there are."""
        return sum(map(len, self.tables.values()))

    def values(self) -> Iterator[Value]:
        """All objects."""
        return chain.from_iterable(table.values() for table in self.tables.values())

    def get(self, key: str) -> Value | None:
        table = self.tables.get(place_of(key))
        return None if table is None else table.get(key)

    def with_objects(self, values: Iterable[Value]) -> Snapshot:
        """The same with further objects, or others under their keys."""
        tables: dict[str, Table] = dict(self.tables)
        for value in values:
            place = place_of(value.key)
            table = tables.get(place)
            if table is None or table is self.tables.get(place):
                table = tables[place] = Table(table or ())
            table[value.key] = value
        return self._replace(tables=tables)


class MemoryStore:
    """``reactor`` is wanted for expiry only; ``clock`` gives unix seconds.

    From a ``snapshot`` it begins with what that holds, and its revisions go on from there.
    """

    exclusive = True
    resets = 0
    run = b""  # nobody else can be given it
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
        self._unshared: set[str] = set()  # those that nobody else has
        self._expires: dict[str, float] = dict(snapshot.expires) if snapshot is not None else {}
        self._changes: deque[Change] = deque()
        self._revision = snapshot.revision if snapshot is not None else 0
        self.foreign = snapshot is not None and snapshot.foreign
        #: account -> revision of its last count
        self._counted: dict[str, int] = dict(snapshot.counted) if snapshot is not None else {}
        #: account -> revision of the last object that was charged to it
        self._charged: dict[str, int] = dict(snapshot.charged) if snapshot is not None else {}
        self._follower: Follower | None = None
        self._started: Follower | None = None  # who is getting all there is, or follows
        self.call: Call = execute  # runs what takes long
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

    def changes(self, since: int, until: int) -> list[Change]:
        """After ``since``, up to ``until``, oldest first.  Raises Compacted when some of them are forgotten."""
        oldest = self._changes[0].revision if self._changes else self._revision + 1
        if since + 1 < oldest:
            raise Compacted(since, oldest)
        return [change for change in self._changes if since < change.revision <= until]

    def data_of(self, key: str) -> bytes | None:
        """What is stored now, for a reader that does not follow changes."""
        value = self._value(key)
        return None if value is None else value.data

    def matching(self, prefix: str) -> list[tuple[str, bytes]]:
        """What is stored now under keys that begin so."""
        return [(value.key, value.data) for value in self._matching(prefix)]

    def tables(self) -> dict[str, Table]:
        """All there is now; what is written later is not in it."""
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
        """The table of a key, to be changed by this store alone."""
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
        """Whether something goes away by itself."""
        return bool(self._expires)

    def snapshot(self) -> Snapshot:
        """What there is now."""
        return Snapshot(
            self._revision,
            self.tables(),
            dict(self._expires),
            dict(self._counted),
            dict(self._charged),
            self.foreign,
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
        """What has expired, for the sweeper."""
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
