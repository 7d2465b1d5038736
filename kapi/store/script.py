"""The Lua scripts of writes: each compares, publishes, counts and stores atomically.

The keys of a store share one hash tag:

* the revision counter, a string;
* the objects, a hash whose values are ``<revision>:<length of head>\\n<head><revision><tail>``;
* the changes, a stream; an entry has the id ``<revision>-0`` and one field, kind and key, whose value is the data;
* the times of expiry, a sorted set: unix seconds of the server's clock, the one clock that all who share the store have;
* the accounts, a hash: for objects that count others (quotas), the revision of the last recount (``c``), and the revision at
  which an object that was charged to the account was last stored (``s``);
* a key that is only written to find out whether writes work.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

#: Returns the new revision; 0 when the key is missing; the stored revision, negated, when it is not the expected one; or
#: ``outdated``.  After the seven named arguments come pairs of key and revision, one for each charge.
#: All reads come before all writes, and XADD is the first write.  So nothing is changed when a key has a wrong type, the server
#: refuses writes, or the stream refuses the id.  A value without a revision has revision 0.
SOURCE = b"""\
local kind, key, expected, head, tail, lifetime, counted = unpack(ARGV, 1, 7)
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
local expiring = (kind == 'd' or lifetime ~= '') and redis.call('ZSCORE', KEYS[4], key)
local now = lifetime ~= '' and redis.call('TIME')
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
  if now then redis.call('ZADD', KEYS[4], string.format('%.3f', now[1] + now[2] / 1000000 + lifetime), key) end
end
if counted ~= '' then redis.call('HSET', KEYS[5], 'c' .. key, revision) end
for at = 8, #ARGV, 2 do redis.call('HSET', KEYS[5], 's' .. ARGV[at], revision) end
return number
"""
#: The same for what is allowed at maxmemory: deletions, and updates that make nothing larger (``kapi.store.memory_limit``).
ALLOWED = b"#!lua flags=allow-oom\n" + SOURCE
#: Deletes objects: the arguments are pairs of key and expected revision.  Returns for each what the script above does.  Here,
#: too, everything that can fail comes before the first XADD.
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
#: Fails when a create would, and only changes a key of its own: finds out whether writes work again.
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
#: Returns the revision counter and writes a key after reading it: a replica that has this write has all up to that revision.
FENCE = b"""\
#!lua flags=allow-oom
local revision = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[2], '')
return revision
"""
#: The scripts of writes by their names in EVALSHA.
SCRIPTS = {
    hashlib.sha1(source, usedforsecurity=False).hexdigest().encode(): source for source in (SOURCE, ALLOWED, DELETIONS)
}
SHA, ALLOWED_SHA, DELETIONS_SHA = SCRIPTS


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
        """The key of the store's random identifier, which is lost with the store's contents."""
        return self.revision[: -len(b"revision")] + b"run"

    @classmethod
    def under(cls, prefix: str) -> Keys:
        tag = b"{" + prefix.encode() + b"}:"
        return cls(*(tag + name for name in (b"revision", b"objects", b"changes", b"expires", b"accounts", b"probe")))
