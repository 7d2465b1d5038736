"""Fills an empty store with the contents of a backup (``kapi.store.dump``).

Everything is written under other names first, and moved to its place in one step: a restore that was interrupted leaves an empty
store, and not a part of the objects.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from kapi.store.connection import Connection
from kapi.store.dump import EXPIRY, OBJECT, Record
from kapi.store.errors import UnsuitableStore
from kapi.store.script import Keys

_MAX_BATCH_BYTES = 1_000_000  # of one command

#: Moves everything to its place, if nothing is there; returns whether that was so.
_MOVE = b"""\
local revision, objects, stream, expires, accounts, run, new_objects, new_expires = unpack(KEYS)
if redis.call('EXISTS', revision, objects, stream, expires, accounts) > 0 then return 0 end
if redis.call('EXISTS', new_objects) == 1 then redis.call('RENAME', new_objects, objects) end
if redis.call('EXISTS', new_expires) == 1 then redis.call('RENAME', new_expires, expires) end
redis.call('SET', revision, ARGV[1])
redis.call('SET', run, ARGV[2])
return 1
"""


class Restore:
    """``where`` names the store."""

    def __init__(self, connection: Connection, keys: Keys, where: str) -> None:
        self._connection = connection
        self._keys = keys
        self._where = where
        tag = keys.revision[: -len(b"revision")]
        self._objects, self._expires = tag + b"new-objects", tag + b"new-expires"

    async def begin(self) -> None:
        """Removes what an interrupted restore has left.  Raises UnsuitableStore when the store is not empty."""
        if await self._connection.execute_command("EXISTS", *self._keys[:5]):
            raise self._not_empty()
        await self._connection.execute_command("DEL", self._objects, self._expires)

    async def take(self, records: Iterable[Record]) -> None:
        """Writes further records; of several records of a key the last one counts."""
        objects: dict[bytes, bytes | None] = {}
        expires: dict[bytes, bytes | None] = {}
        size = 0
        for record in records:
            if record.kind == EXPIRY:
                expires[record.key] = record.value
                continue
            objects[record.key] = record.value if record.kind == OBJECT else None
            expires[record.key] = None
            size += len(record.value)
            if size > _MAX_BATCH_BYTES:
                await self._write(objects, expires)
                objects, expires, size = {}, {}, 0
        await self._write(objects, expires)

    async def _write(self, objects: dict[bytes, bytes | None], expires: dict[bytes, bytes | None]) -> None:
        execute = self._connection.execute_command
        gone = [key for key, value in objects.items() if value is None]
        kept = [part for item in objects.items() if item[1] is not None for part in item]
        if gone:
            await execute("HDEL", self._objects, *gone)
        if kept:
            await execute("HSET", self._objects, *kept)
        lasting = [key for key, expiry in expires.items() if expiry is None]
        expiring = [part for key, expiry in expires.items() if expiry is not None for part in (expiry, key)]
        if lasting:
            await execute("ZREM", self._expires, *lasting)
        if expiring:
            await execute("ZADD", self._expires, *expiring)

    async def finish(self, revision: int) -> None:
        """Moves everything to its place; ``revision`` is the store's newest one.  Raises UnsuitableStore."""
        names: Sequence[bytes] = (*self._keys[:5], self._keys.run, self._objects, self._expires)
        arguments = (revision, secrets.token_hex(16))
        if not await self._connection.execute_command("EVAL", _MOVE, len(names), *names, *arguments):
            raise self._not_empty()

    def _not_empty(self) -> UnsuitableStore:
        prefix = self._keys.revision.rpartition(b":")[0].decode()
        return UnsuitableStore(
            f"{self._where}: the store is not empty: it has keys that begin with {prefix}; "
            "restore into another data directory, database or --redis-prefix, or delete them"
        )
