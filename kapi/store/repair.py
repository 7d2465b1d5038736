"""Repairs keys that do not fit together: a stream whose last id is beyond the revision counter accepts no further changes.

Only another program, or a restore of some of the keys, can cause that.  Entries beyond the counter that are not kapi's changes
are removed.  When there are changes beyond it, or objects with newer revisions, the counter is set to the newest revision.
"""

from __future__ import annotations

import txredisapi
from twisted.logger import Logger

from kapi.store.connection import Connection
from kapi.store.entries import CHANGES, Reply, Skipped
from kapi.store.errors import UnsuitableStore
from kapi.store.script import Keys

log = Logger()

_MAX_KEPT_CHANGES = 1000  # changes that are kept when the stream is made again
#: Returns the counter's value if it was changed, else "", and the ids of the removed entries.  The last id of a stream cannot be
#: lowered, so the stream is deleted and made again with its latest changes.
_SOURCE = b"""\
local counter = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
local before = counter
if tonumber(ARGV[1]) > counter then counter = tonumber(ARGV[1]) end
local number, sequence = 0, 0
if redis.call('EXISTS', KEYS[2]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[2])
  for position = 1, #info, 2 do
    if info[position] == 'last-generated-id' then
      local one, two = string.match(info[position + 1], '^(%d+)%-(%d+)$')
      number, sequence = tonumber(one), tonumber(two)
    end
  end
end
local function is_change(entry, key)
  local fields = entry[2]
  return string.match(entry[1], '^%d+%-0$') and #fields == 2 and string.match(fields[1], '^[cud]' .. key)
end
local removed = {}
if number > counter or (number == counter and sequence > 0) then
  local beyond = redis.call('XRANGE', KEYS[2], '(' .. string.format('%.0f', counter) .. '-0', '+')
  for _, entry in ipairs(beyond) do
    if is_change(entry, '[^/]+/[^/]+/') then
      counter = tonumber(string.match(entry[1], '^%d+'))
    else
      removed[#removed + 1] = entry[1]
    end
  end
  if number > counter or (number == counter and sequence > 0) then
    local last = string.format('%.0f', counter) .. '-0'
    local kept = redis.call('XREVRANGE', KEYS[2], last, '-', 'COUNT', tonumber(ARGV[2]))
    redis.call('DEL', KEYS[2])
    for position = #kept, 1, -1 do
      if is_change(kept[position], '.') then
        redis.call('XADD', KEYS[2], kept[position][1], kept[position][2][1], kept[position][2][2])
      end
    end
  end
end
if counter > before then
  redis.call('SET', KEYS[1], string.format('%.0f', counter))
  return {string.format('%.0f', counter), removed}
end
return {'', removed}
"""


async def check_types(connection: Connection, keys: Keys, where: str) -> None:
    """Raises UnsuitableStore when a key has another type than kapi's."""
    wanted = {
        keys.revision: "string",
        keys.objects: "hash",
        keys.stream: "stream",
        keys.expires: "zset",
        keys.accounts: "hash",
    }
    for name, kind in wanted.items():
        found = (await connection.execute_command("TYPE", name)).decode()
        if found not in (kind, "none"):
            raise UnsuitableStore(
                f"{where}: the key {name.decode()} is a {found}, not the {kind} that kapi keeps there; "
                "rename it, or choose another --redis-prefix"
            )


async def repair(connection: Connection, keys: Keys, skipped: Skipped, newest: int = 0) -> None:
    """Repairs stream and counter where needed; ``newest`` is the highest revision of an object."""
    try:
        reply: Reply = await connection.execute_command(
            "EVAL", _SOURCE, 2, keys.revision, keys.stream, newest, _MAX_KEPT_CHANGES
        )
    except txredisapi.ResponseError as error:
        log.error("the store's stream of changes could not be looked at: {error}", error=str(error))
        return
    counter, removed = reply
    for identifier in removed:
        skipped.add(CHANGES, identifier, "no change could follow it; it was removed")
    if counter:
        log.error("the store's counter {key} was behind its changes; it is {counter} now",
                  key=keys.revision.decode(), counter=int(counter))  # fmt: skip
