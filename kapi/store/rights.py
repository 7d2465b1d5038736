"""Finds out at the start whether the user of the URL may run every command that a store uses, and whether the server has it.

Otherwise the first lack would be met at a random later point: in a write, when history is compacted, after a lost connection.
"""

from __future__ import annotations

import txredisapi

from kapi.store.connection import Connection
from kapi.store.errors import UnsuitableStore
from kapi.store.script import Keys
from kapi.store.suitability import refusal

#: The commands, with the arguments that make them valid, for the check of their keys.  The first argument tells how replicas
#: confirm writes: by WAIT, by WAITAOF, or not at all.  Returns the commands that the user may not run, and those that the server
#: does not have, such as renamed ones.
CHECK = b"""\
local revision, objects, stream, expires, accounts, probe, run = unpack(KEYS)
local commands = {
  {'EVALSHA', '', '0'},
  {'SCRIPT', 'LOAD', ''},
  {'INFO'},
  {'PING'},
  {'TIME'},
  {'TYPE', revision},
  {'EXISTS', stream},
  {'GET', revision},
  {'MGET', revision, run},
  {'SET', revision, '1'},
  {'SET', probe, ''},
  {'SET', run, '', 'NX'},
  {'HGET', objects, ''},
  {'HMGET', accounts, ''},
  {'HLEN', accounts},
  {'HSCAN', objects, '0'},
  {'HSET', objects, '', ''},
  {'HSET', accounts, '', ''},
  {'HDEL', objects, ''},
  {'HDEL', accounts, ''},
  {'XADD', stream, '1-0', '', ''},
  {'XRANGE', stream, '-', '+'},
  {'XREVRANGE', stream, '+', '-'},
  {'XREAD', 'STREAMS', stream, '0'},
  {'XTRIM', stream, 'MINID', '=', '0'},
  {'XINFO', 'STREAM', stream},
  {'DEL', stream},
  {'ZADD', expires, '0', ''},
  {'ZREM', expires, ''},
  {'ZCARD', expires},
  {'ZSCORE', expires, ''},
  {'ZRANGEBYSCORE', expires, '-inf', '0'},
}
if ARGV[1] ~= '' then commands[#commands + 1] = {'WAIT', '0', '0'} end
if ARGV[1] == 'WAITAOF' then
  commands[#commands + 1] = {'WAITAOF', '0', '0', '0'}
  commands[#commands + 1] = {'CLIENT', 'ID'}
end
local denied, unknown = {}, {}
for _, words in ipairs(commands) do
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  local name = words[1]
  if name == 'SCRIPT' or name == 'XINFO' or name == 'CLIENT' then name = name .. '|' .. words[2] end
  if not known then
    unknown[#unknown + 1] = name
  elseif not allowed then
    denied[#denied + 1] = name
  end
end
return {denied, unknown}
"""


async def check_rights(connection: Connection, keys: Keys, where: str, username: str, confirmed_by: str = "") -> None:
    """``confirmed_by``: the command by which replicas confirm writes, if any.

    Raises UnsuitableStore with one line, StoreUnavailable, ConnectionGone.
    """
    used = (*keys, keys.run)
    try:
        denied, unknown = await connection.execute_command("EVAL", CHECK, len(used), *used, confirmed_by)
    except txredisapi.ResponseError as error:
        text = str(error)
        if text.startswith("NOPERM") and "'eval'" in text:
            denied, unknown = [b"EVAL"], []
        elif text.startswith("ERR unknown command"):
            denied, unknown = [], [b"EVAL"]
        elif text.startswith("NOPERM"):
            prefix = keys.revision.decode().partition(":")[0]
            raise UnsuitableStore(
                f"{where}: the user {_name(username)} may not use kapi's keys; grant ~{prefix}:*"
            ) from None
        else:
            raise refusal(where, error) from None
    if denied:
        found = _sorted(denied)
        grant = " ".join(f"+{name.lower()}" for name in found)
        raise UnsuitableStore(f"{where}: the user {_name(username)} may not run {', '.join(found)}; grant {grant}")
    if unknown:
        names = ", ".join(_sorted(unknown))
        raise UnsuitableStore(f"{where}: the server does not have {names}, which kapi needs: renamed or disabled there")


def _name(username: str) -> str:
    return username or "default"


def _sorted(names: list[bytes]) -> list[str]:
    return sorted({name.decode() for name in names})
