"""The one write there is: a Lua script that compares, publishes, counts and stores atomically.

Keys of a store share one hash tag: the revision counter, a hash of objects, the stream of changes, a sorted set of expiry times,
for objects that keep an account, a hash of the revisions at which each was last counted (``c``) and something that was
charged to it was last stored (``s``), and a key that is written to see whether writes work.  A value in the hash of objects is
``<revision>:<length of head>\\n<head><revision><tail>``; an entry of the stream has the id ``<revision>-0`` and one field, kind
and key, whose value is the data.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

#: Answers the new revision; 0 when the key is missing; the stored revision, negated, when it is not the expected one; or
#: ``outdated``.  After the seven named arguments come pairs, a key and a revision, for what the write was charged to.
#: All reads come before all writes, and XADD is the first write: a key of a wrong type, a server that refuses writes
#: and an id that the stream does not take leave everything as it was.  A value without a revision has revision 0.
SOURCE = b"""\
local kind, key, expected, head, tail, expires, counted = unpack(ARGV, 1, 7)
local stored = redis.call('HGET', KEYS[2], key)
if kind == 'c' then
  if stored then return -tonumber(string.match(stored, '^%d+') or 0) end
else
  if not stored then return 0 end
  local at = string.match(stored, '^%d+') or '0'
  if at ~= expected then return -tonumber(at) end
end
if counted ~= '' then
  local charged = redis.call('HGET', KEYS[5], 's' .. key)
  if charged and tonumber(charged) > tonumber(counted) then return 'outdated' end
end
for at = 8, #ARGV, 2 do
  local last = redis.call('HGET', KEYS[5], 'c' .. ARGV[at])
  if last and tonumber(last) > tonumber(ARGV[at + 1]) then return 'outdated' end
end
local expiring = (kind == 'd' or expires ~= '') and redis.call('ZSCORE', KEYS[4], key)
local account = kind == 'd' and redis.call('HMGET', KEYS[5], 'c' .. key, 's' .. key)
local number = (redis.call('GET', KEYS[1]) or 0) + 1
local revision = string.format('%.0f', number)
local data = head .. revision .. tail
redis.call('XADD', KEYS[3], revision .. '-0', kind .. key, data)
redis.call('SET', KEYS[1], revision)
if kind == 'd' then
  redis.call('HDEL', KEYS[2], key)
  if expiring then redis.call('ZREM', KEYS[4], key) end
  if account[1] or account[2] then redis.call('HDEL', KEYS[5], 'c' .. key, 's' .. key) end
else
  redis.call('HSET', KEYS[2], key, revision .. ':' .. #head .. '\\n' .. data)
  if expires ~= '' then redis.call('ZADD', KEYS[4], expires, key) end
end
if counted ~= '' then redis.call('HSET', KEYS[5], 'c' .. key, revision) end
for at = 8, #ARGV, 2 do redis.call('HSET', KEYS[5], 's' .. ARGV[at], revision) end
return number
"""
#: The same for deletions, which free memory: also at maxmemory.
DELETION = b"#!lua flags=allow-oom\n" + SOURCE
#: Deletes objects as they are stored: the arguments are pairs, a key and the revision that is expected.  Answers for each what
#: the script above does.  Here, too, all that can fail comes before the first XADD.
DELETIONS = b"""\
#!lua flags=allow-oom
local keys, gone, accounts = {}, {}, {}
for at = 1, #ARGV, 2 do keys[#keys + 1] = ARGV[at] end
local values = redis.call('HMGET', KEYS[2], unpack(keys))
local expiring = redis.call('ZCARD', KEYS[4]) > 0
local charged = redis.call('HLEN', KEYS[5]) > 0
local before = (redis.call('GET', KEYS[1]) or 0) + 0
local number, revision, replies = before, '', {}
for at, key in ipairs(keys) do
  local value = values[at]
  local stored, length, from = string.match(value or '', '^(%d+):(%d+)\\n()')
  if not value then
    replies[at] = 0
  elseif stored ~= ARGV[2 * at] then
    replies[at] = -tonumber(stored or 0)
  else
    number = number + 1
    revision = string.format('%.0f', number)
    local cut = from + length
    local data = string.sub(value, from, cut - 1) .. revision .. string.sub(value, cut + #stored)
    redis.call('XADD', KEYS[3], revision .. '-0', 'd' .. key, data)
    replies[at] = number
    gone[#gone + 1] = key
    accounts[#accounts + 1] = 'c' .. key
    accounts[#accounts + 1] = 's' .. key
  end
end
if number > before then
  redis.call('SET', KEYS[1], revision)
  redis.call('HDEL', KEYS[2], unpack(gone))
  if expiring then redis.call('ZREM', KEYS[4], unpack(gone)) end
  if charged then redis.call('HDEL', KEYS[5], unpack(accounts)) end
end
return replies
"""
#: Fails as a create would, and changes nothing but a key of its own: for who wants to know whether writes work again.
PROBE = b"""\
local number = (redis.call('GET', KEYS[1]) or 0) + 0
redis.call('HGET', KEYS[2], '')
redis.call('ZSCORE', KEYS[4], '')
redis.call('HGET', KEYS[5], '')
if redis.call('EXISTS', KEYS[3]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[3])
  for position = 1, #info, 2 do
    local last = info[position] == 'last-generated-id' and string.match(info[position + 1], '^%d+')
    if last and tonumber(last) > number then
      return redis.error_reply('ERR the stream of changes goes to ' .. last .. ', the revision counter to ' .. number)
    end
  end
end
redis.call('SET', KEYS[6], '')
return number
"""
#: Answers the revision counter and writes something after it: who has that has all up to this revision.
FENCE = b"""\
#!lua flags=allow-oom
local revision = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[2], '')
return revision
"""
SHA, DELETION_SHA, DELETIONS_SHA = (
    hashlib.sha1(source, usedforsecurity=False).hexdigest().encode() for source in (SOURCE, DELETION, DELETIONS)
)


class Keys(NamedTuple):
    """The names of a store's keys."""

    revision: bytes
    objects: bytes
    stream: bytes
    expires: bytes
    accounts: bytes
    probe: bytes

    @property
    def run(self) -> bytes:
        """Holds what the store calls itself: random, and gone when the store is emptied."""
        return self.revision[: -len(b"revision")] + b"run"

    @classmethod
    def under(cls, prefix: str) -> Keys:
        tag = b"{" + prefix.encode() + b"}:"
        return cls(*(tag + name for name in (b"revision", b"objects", b"changes", b"expires", b"accounts", b"probe")))
