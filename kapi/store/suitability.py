"""Checks that a server can be used, and logs settings with which it may lose data; each problem is one line.

At the start this finds out too whether the server has all commands that a store uses, and the user of the URL may run them.
Otherwise the first lack would be met at a random later point: in a write, when history is compacted, after a lost connection.
"""

from __future__ import annotations

from collections.abc import Mapping

import txredisapi
from twisted.logger import Logger

from kapi.store.connection import Connection
from kapi.store.errors import StoreLoading, StoreUnavailable, UnsuitableStore
from kapi.store.script import Keys

log = Logger()

OLDEST = (7, 0)
#: advice for an error of the server, by its first word
_ADVICE = {
    "NOAUTH": " The URL names the user, and password-file= its password.",
    "DENIED": " Give the server a password, or let it listen on the addresses of kapi only.",
}
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


async def check(connection: Connection, where: str, sentinel: bool = False) -> dict[str, str]:
    """Returns the fields of INFO.  Raises UnsuitableStore, or StoreLoading while the server loads its data.

    ``sentinel``: a Sentinel named the server.  A replica then raises StoreUnavailable: it was just demoted, or will be promoted
    soon.
    """
    try:
        info = read_info(await connection.execute_command("INFO"))
    except txredisapi.ResponseError as error:
        raise refusal(where, error) from None
    mode = info.get("server_mode") or info.get("redis_mode")  # in Valkey, in Redis
    if mode == "sentinel":
        raise UnsuitableStore(f"{where}: this is a Sentinel: use redis+sentinel://HOST:PORT/NAME")
    version = info.get("valkey_version") or info.get("redis_version", "")
    if _numbers(info.get("redis_version", "0")) < OLDEST:
        raise UnsuitableStore(f"{where}: Redis {version} is too old; 7.0 or Valkey 7.2 is the oldest that is supported")
    if mode == "cluster" or info.get("cluster_enabled") == "1":
        raise UnsuitableStore(f"{where}: the server runs in cluster mode, which is not supported")
    if info.get("loading") == "1":
        raise StoreLoading(f"{where}: the server is loading its data")
    if info.get("role") == "slave" and sentinel:
        raise StoreUnavailable(f"{where}: the server that the Sentinels name is a replica")
    if info.get("role") == "slave":
        raise UnsuitableStore(f"{where}: the server is a read-only replica; name its primary")
    eviction = _eviction(info)
    if eviction:
        raise UnsuitableStore(f"{where}: {eviction}")
    return info


def _eviction(info: Mapping[str, str]) -> str:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return ""
    return f"maxmemory-policy is {policy}, so the server may throw objects away; set it to noeviction"


class Risks:
    """Logs each setting of a server with which it may lose data, and when it does not have it any more."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._known: dict[str, str] = {}
        self._asks_settings = True

    async def check(self, connection: Connection, info: Mapping[str, str], *, new: bool = False) -> None:
        """``info`` are the fields of INFO; ``new``: the first check with this connection.  Raises ConnectionGone."""
        self._asks_settings = self._asks_settings or new
        fsync = await self._fsync(connection) if self._asks_settings else ""
        found = {"maxmemory-policy": _eviction(info)}
        if info.get("aof_enabled") == "0":
            found["appendonly"] = "appendonly is no, so its end loses objects; set it to yes, and appendfsync to always"
        elif fsync not in ("", "always"):
            found["appendonly"] = f"appendfsync is {fsync}, so a crash may lose writes; set it to always"
        else:
            found["appendonly"] = ""
        for name, why in found.items():
            if why != self._known.get(name, ""):
                log.warn("{where}: {why}", where=self._where, why=why or f"{name} is right again")
        self._known = found

    async def _fsync(self, connection: Connection) -> str:
        """The server's ``appendfsync``; "" when it may not be asked."""
        try:
            reply = await connection.execute_command("CONFIG", "GET", "appendfsync")
        except (txredisapi.ResponseError, StoreUnavailable):
            self._asks_settings = False
            return ""
        return reply[1].decode() if len(reply) == 2 else ""


def knows_disk(info: dict[str, str]) -> bool:
    """Whether the server supports WAITAOF (since 7.2) and has an append-only file."""
    return info.get("aof_enabled") == "1" and _numbers(info.get("redis_version", "0")) >= (7, 2)


def refusal(where: str, error: Exception) -> Exception:
    """The error to raise for an error of the server."""
    text = str(error)
    word = text.partition(" ")[0]
    if word == "LOADING":
        return StoreLoading(f"{where}: the server is loading its data")
    if word in ("BUSY", "MASTERDOWN", "TRYAGAIN", "MISCONF", "CLUSTERDOWN") or "max number of clients" in text:
        return StoreUnavailable(f"{where}: {text}")
    return UnsuitableStore(f"{where}: {text}{_ADVICE.get(word, '')}")


def read_info(raw: bytes) -> dict[str, str]:
    """The fields of INFO."""
    info: dict[str, str] = {}
    for line in bytes(raw).decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            info[name] = value
    return info


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


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
