"""The store on a Redis or Valkey server: a stream is the revision log (upstream: apiserver ``storage/etcd3/store.go``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import txredisapi
from twisted.internet import defer

from kapi.machinery.each import elements
from kapi.process.reactor import Reactor
from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionGone
from kapi.store.errors import NotEncryptable, ObjectTooLarge, StoreError, StoreUnavailable
from kapi.store.interface import (
    CREATED,
    DELETED,
    MAX_OBJECT_BYTES,
    UPDATED,
    Charge,
    Deletion,
    Follower,
    StoredObject,
    check_size,
)
from kapi.store.memory_limit import makes_larger
from kapi.store.primary_connection import PrimaryConnection
from kapi.store.shared_revisions import SharedRevisions
from kapi.store.suitability import read_info
from kapi.store.sweeper import Due, Sweeper


class RedisStore(PrimaryConnection):
    """``clock`` returns unix seconds, for expiry; the other arguments are those of PrimaryConnection.

    The times of expiry in the store are of its server's clock: those of the processes that share it may differ.
    """

    def __init__(
        self,
        address: Address,
        reactor: Reactor,
        *,
        prefix: str = "kapi",
        exclusive: bool = False,
        min_replicas: int = 0,
        start_timeout: float = 0.0,
        clock: Callable[[], float] = time.time,
        shared: SharedRevisions | None = None,
    ) -> None:
        super().__init__(
            address,
            reactor,
            prefix=prefix,
            exclusive=exclusive,
            min_replicas=min_replicas,
            start_timeout=start_timeout,
            shared=shared,
        )
        self.max_object_bytes = MAX_OBJECT_BYTES
        self._clock = clock
        self._sweeper = Sweeper(self, reactor, clock)

    def observe(self, on_request: Callable[[str, str, float], None]) -> None:
        """For metrics: ``on_request`` is called after each write with the operation, the key, and how many seconds it took."""
        self._replies.on_request = on_request

    async def start(self, follower: Follower | None = None) -> None:
        """As ``PrimaryConnection.start``; also starts the deletion of expired objects."""
        await super().start(follower)
        self._sweeper.start()

    async def stop(self) -> None:
        self._sweeper.stop()
        await super().stop()

    def create(
        self, key: str, head: bytes, tail: bytes, *, expires: float | None = None, charges: Sequence[Charge] = ()
    ) -> defer.Deferred[int]:
        return self._write(CREATED, key, 0, head, tail, expires, charges)

    def update(
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
    ) -> defer.Deferred[int]:
        return self._write(UPDATED, key, expected, head, tail, expires, charges, counted, replaced, going)

    def delete(self, key: str, expected: int, head: bytes, tail: bytes) -> defer.Deferred[int]:
        return self._write(DELETED, key, expected, head, tail, None)

    def delete_all(self, deletions: Sequence[Deletion]) -> defer.Deferred[Sequence[int | StoreError]]:
        if self.encryption is not None:  # changes made from replies need the encrypted halves, which are not known here
            return defer.Deferred.fromCoroutine(self._delete_each(deletions))
        try:
            return self._writing.send_deletions(self._writable(), deletions, self._known())
        except StoreUnavailable as error:
            return defer.fail(error)

    async def _delete_each(self, deletions: Sequence[Deletion]) -> Sequence[int | StoreError]:
        writes = [self.delete(*deletion) for deletion in deletions]
        results: list[int | StoreError] = []
        for write in writes:
            try:
                results.append(await write)
            except StoreError as error:
                results.append(error)
        return results

    async def get(self, key: str) -> StoredObject | None:
        found = await self._reading.get(key)
        if self._shared is not None:
            if found is None:
                await self._show_newest()
            else:
                self._shared.show(found.revision)
        if found is None or self.encryption is None:
            return found
        await self.encryption.prepare([found])
        return self.encryption.object(found)

    def stale(self, key: str) -> bool:
        return self.encryption is not None and self.encryption.stale(key)

    def is_current(self, revision: int) -> bool:
        return self.exclusive or self._shared is not None and self._shared.is_current(revision)

    async def scan(self, prefix: str) -> Sequence[StoredObject]:
        found = await self._reading.scan(prefix)
        if self.encryption is None:
            return found
        await self.encryption.prepare(found)
        return [self.encryption.object(one) for one in elements(found)]

    async def compact(self, revision: int) -> None:
        newest = await self.revision()
        oldest = min(revision + 1, newest)
        if oldest > 0:
            await self._reading.ask("XTRIM", self._keys.stream, "MINID", "=", f"{oldest}-0")

    async def due(self, now: float, limit: int) -> list[Due]:
        """As ``Reading.due``; ``now`` is of this process's clock."""
        seconds, micros = await self._reading.ask("TIME")
        ahead = int(seconds) + int(micros) / 1e6 - self._clock()
        return await self._reading.due(now + ahead, limit)

    def _write(
        self,
        kind: str,
        key: str,
        expected: int,
        head: bytes,
        tail: bytes,
        expires: float | None,
        charges: Sequence[Charge] = (),
        counted: int | None = None,
        replaced: int = 0,
        going: bool = False,
    ) -> defer.Deferred[int]:
        limit, size = self.max_object_bytes, len(head) + len(tail)
        if size > limit and limit and kind != DELETED:
            try:
                check_size(key, size, limit, replaced, going)
            except ObjectTooLarge as error:
                return defer.fail(error)
        try:
            connection = self._writable()
            if self.encryption is not None:
                head, tail = self.encryption.to_storage(key, head, tail)
        except (StoreUnavailable, NotEncryptable) as error:
            return defer.fail(error)
        lifetime = None if expires is None else expires - self._clock()
        known = self._known()
        allowed = kind == DELETED or going or not makes_larger(size, expected, replaced)
        return self._writing.send(
            connection, kind, key, expected, head, tail, lifetime, charges, counted, known, allowed
        )

    def _known(self) -> int:
        """A revision that the store is known to have reached."""
        return self._progress.revision if self._progress is not None else 0

    def _writable(self) -> Connection:
        """The connection for writes.  Raises StoreUnavailable, also while writes are not confirmed."""
        confirmation = self._confirmation
        if confirmation is not None and confirmation.problem and self._connection is not None:
            raise StoreUnavailable(f"{self.address}: writes are not confirmed: {confirmation.problem}")
        return self._current()

    async def info(self) -> dict[str, str]:
        """The fields of the server's INFO.  Raises StoreError."""
        try:
            return read_info(await self._current().execute_command("INFO"))
        except (txredisapi.RedisError, ConnectionGone) as problem:
            raise StoreUnavailable(str(problem)) from None
