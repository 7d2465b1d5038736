"""Reads the contents of a store at one revision while others write, for a backup; fills an empty store with them.

The objects are scanned, each as of some moment.  Meanwhile the changes since the beginning are read from the stream, and
the objects that they name are read again.  The last step reads the remaining changes and their objects at once, so that
everything is as it was at that step's revision.

The result is a log: of several records of a key the last one counts.  Values are those of the hash (``kapi.store.script``),
encrypted ones too.  Times of expiry are unix seconds of the server's clock.  Neither history nor the accounts of quotas are read:
no process that used them survives a restore.

A restore writes everything under other names first, and moves it to its place in one step: a restore that was interrupted leaves
an empty store, and not a part of the objects.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kapi.store.connection import Connection
from kapi.store.entries import Reply, counter_of, identifier_of
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.loading import Paging
from kapi.store.script import Keys

OBJECT, EXPIRY, GONE = b"o", b"e", b"d"
_SCAN_COUNT = 500  # objects scanned at once, when they are small
_MAX_CHANGES = 500  # changes read at once, when their objects are small

#: Returns for each key when it expires, if it does.
_EXPIRIES = b"""\
local found = {}
for at, key in ipairs(ARGV) do found[at] = redis.call('ZSCORE', KEYS[1], key) or '' end
return found
"""
#: Returns the revision, the number of objects, and the next changes after an id: the id and the name of the entry, and the object
#: that it is about with its time of expiry, as they are now.
_CHANGES = b"""\
local found = {}
for at, entry in ipairs(redis.call('XRANGE', KEYS[3], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])) do
  local name = entry[2][1]
  local key = string.sub(name, 2)
  found[at] = {entry[1], name, redis.call('HGET', KEYS[2], key), redis.call('ZSCORE', KEYS[4], key)}
end
return {redis.call('GET', KEYS[1]) or '0', redis.call('HLEN', KEYS[2]), found}
"""
_MAX_BATCH_BYTES = 1_000_000  # size of one command
#: Moves everything to its place, if that is empty; returns whether it was.
_MOVE = b"""\
local revision, objects, stream, expires, accounts, run, new_objects, new_expires = unpack(KEYS)
if redis.call('EXISTS', revision, objects, stream, expires, accounts) > 0 then return 0 end
if redis.call('EXISTS', new_objects) == 1 then redis.call('RENAME', new_objects, objects) end
if redis.call('EXISTS', new_expires) == 1 then redis.call('RENAME', new_expires, expires) end
redis.call('SET', revision, ARGV[1])
redis.call('SET', run, ARGV[2])
return 1
"""


class Record(NamedTuple):
    """``value`` is that of an object (OBJECT), or its time of expiry (EXPIRY); empty when it is gone (GONE)."""

    kind: bytes
    key: bytes
    value: bytes = b""


class Contents(NamedTuple):
    """The contents that were read, all at this revision."""

    revision: int
    objects: int


Take = Callable[[Sequence[Record]], None]


class Dump:
    """``take`` gets the records in order."""

    def __init__(self, connection: Connection, keys: Keys, take: Take) -> None:
        self._connection = connection
        self._keys = keys
        self._take = take
        self._revision = 0  # all changes up to this one are known
        self._after = "0-0"  # the id of the last entry that was read
        self._paging = Paging(_MAX_CHANGES)

    async def run(self) -> Contents:
        """Raises StoreUnavailable, ConnectionGone, txredisapi.ResponseError."""
        connection, keys = self._connection, self._keys
        counter, run = await connection.execute_command("MGET", keys.revision, keys.run)
        self._revision = counter_of(counter)
        self._after = f"{self._revision}-0"
        paging, cursor = Paging(_SCAN_COUNT), b"0"
        while True:
            cursor, flat = await connection.execute_command("HSCAN", keys.objects, cursor, "COUNT", paging.count)
            paging.took(paging.count, sum(map(len, flat)))
            await self._scanned(flat[::2], flat[1::2])
            if cursor == b"0":
                break
            await self._changes()  # now, because they are compacted after some time
        while (contents := await self._changes()) is None:
            pass
        if await connection.execute_command("GET", keys.run) != run:
            raise StoreUnavailable("the store was emptied or replaced meanwhile; try again")
        return contents

    async def _scanned(self, names: Sequence[bytes], values: Sequence[bytes]) -> None:
        if not names:
            return
        expiries = await self._connection.execute_command("EVAL", _EXPIRIES, 1, self._keys.expires, *names)
        records: list[Record] = []
        for name, value, expiry in zip(names, values, expiries, strict=True):
            records += _records(name, value, expiry)
        self._take(records)

    async def _changes(self) -> Contents | None:
        """Reads the next changes and their objects; None when there may be more."""
        keys, paging = self._keys[:4], self._paging
        counter, objects, found = await self._connection.execute_command(
            "EVAL", _CHANGES, len(keys), *keys, self._after, paging.count
        )
        records: list[Record] = []
        for identifier, name, value, expiry in found:
            number, sequence = identifier_of([identifier])
            if sequence or name[:1] not in (b"c", b"u", b"d"):
                continue  # an entry that kapi did not write
            if number != self._revision + 1:
                raise _compacted()
            self._revision = number
            records += [Record(GONE, name[1:]), *_records(name[1:], value, expiry)]
        if found:
            self._after = found[-1][0].decode()
            self._take(records)
        complete = len(found) < paging.count
        paging.took(len(found), sum(len(value or b"") for _, _, value, _ in found))
        if not complete:
            return None
        if self._revision != counter_of(counter):
            raise _compacted()
        return Contents(self._revision, objects)


def _records(key: bytes, value: bytes | None, expiry: bytes | None) -> list[Record]:
    found = []
    if value is not None:
        found.append(Record(OBJECT, key, value))
        if expiry:
            found.append(Record(EXPIRY, key, expiry))
    return found


def _compacted() -> StoreUnavailable:
    return StoreUnavailable("the store's history was compacted while it was read; try again, or raise its maxmemory")


def parse(reply: Reply) -> Record:
    """The record in ``[kind, key, value]``.  Raises ValueError."""
    if not isinstance(reply, list) or len(reply) != 3 or reply[0] not in (OBJECT, EXPIRY, GONE):
        raise ValueError("not a record of a backup")
    return Record(*reply)


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
