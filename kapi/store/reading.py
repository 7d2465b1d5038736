"""Reading from a store: objects, the revision counter, expired objects.

No result may be lost by a fail-over: with replicas that must confirm writes, a read waits for them (``kapi.store.confirmation``).
The objects of a scan are of different revisions; callers must then wait until they have the changes up to the newest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import txredisapi

from kapi.store.confirmation import Confirmation
from kapi.store.connection import Connection, ConnectionGone
from kapi.store.entries import OBJECTS, Reply, Skipped, counter_of, read_halves, read_value
from kapi.store.errors import StoreUnavailable
from kapi.store.interface import StoredObject
from kapi.store.loading import REPLY_BYTES, Paging, scan
from kapi.store.script import Keys
from kapi.store.sweeper import Due


class Reading:
    """``connection()`` returns the connection, or raises StoreUnavailable while there is none; ``where`` names the store."""

    def __init__(
        self,
        where: str,
        keys: Keys,
        skipped: Skipped,
        connection: Callable[[], Connection],
        confirmation: Confirmation | None,
    ) -> None:
        self._where = where
        self._keys = keys
        self._skipped = skipped
        self._connection = connection
        self._confirmation = confirmation

    async def ask(self, *words: object) -> Reply:
        """The reply to one command.  Raises StoreUnavailable."""
        connection = self._connection()
        try:
            return await connection.execute_command(*words)
        except ConnectionGone as error:
            raise StoreUnavailable(f"{self._where}: {error}") from None

    async def get(self, key: str) -> StoredObject | None:
        name = key.encode()
        value = await self.ask("HGET", self._keys.objects, name)
        await self._all_confirmed()
        return None if value is None else read_value(name, value)

    async def position(self) -> tuple[int, bytes]:
        """The newest revision, confirmed, and the identifier of the store's contents (``Store.run``)."""
        counter, run = await self.ask("MGET", self._keys.revision, self._keys.run)
        newest = counter_of(counter)
        if self._confirmation is not None:
            newest = max(newest, await self._confirmed(self._confirmation, newest))
        return newest, run or b""

    async def _all_confirmed(self) -> None:
        """Waits until everything that was just read is confirmed.

        Must use the connection of that read: the server of another one may have another history.
        """
        if self._confirmation is not None:
            await self._confirmed(self._confirmation, counter_of(await self.ask("GET", self._keys.revision)))

    async def _confirmed(self, confirmation: Confirmation, newest: int) -> int:
        try:
            return await confirmation.at_least(newest)
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{self._where}: {error}") from None

    async def scan(self, prefix: str) -> Sequence[StoredObject]:
        connection = self._connection()
        try:
            found = list((await scan(connection, self._keys, self._skipped, prefix)).values())
        except (ConnectionGone, txredisapi.ResponseError) as error:
            raise StoreUnavailable(f"{self._where}: {error}") from None
        await self._all_confirmed()
        return found

    async def due(self, now: float, limit: int) -> list[Due]:
        """The expired objects, for the sweeper: at most ``limit``, or a few megabytes of them, but at least one.

        Skips names without an object, which a restore may have left.
        """
        found: list[Due] = []
        start = size = 0
        paging = Paging(limit)
        while len(found) < limit and size < REPLY_BYTES:
            last = start + min(paging.count, limit - len(found))
            keys = await self.ask(
                "ZRANGEBYSCORE", self._keys.expires, "-inf", f"{now:.3f}", "LIMIT", start, last - start
            )
            if not keys:
                break
            start += len(keys)
            values = await self.ask("HMGET", self._keys.objects, *keys)
            paging.took(len(keys), sum(len(value) for value in values if value is not None))
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    continue
                try:
                    found.append(Due(key.decode(), *read_halves(value)))
                    size += len(value)
                except ValueError as error:
                    self._skipped.add(OBJECTS, key, error)
        return found
