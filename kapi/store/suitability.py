"""Checks that a server can be used; each problem is reported in one line."""

from __future__ import annotations

import txredisapi

from kapi.store.connection import Connection
from kapi.store.errors import StoreLoading, StoreUnavailable, UnsuitableStore

OLDEST = (7, 0)


async def check(connection: Connection, where: str, sentinel: bool = False) -> dict[str, str]:
    """Returns the fields of INFO.  Raises UnsuitableStore, or StoreLoading while the server loads its data.

    ``sentinel``: a Sentinel named the server.  A replica then raises StoreUnavailable: it was just demoted, or will be promoted
    soon.
    """
    try:
        info = read_info(await connection.execute_command("INFO"))
        await connection.execute_command("TIME")  # which scripts need, too; not every user may ask for it
    except txredisapi.ResponseError as error:
        raise refusal(where, error) from None
    version = info.get("valkey_version") or info.get("redis_version", "")
    if _numbers(info.get("redis_version", "0")) < OLDEST:
        raise UnsuitableStore(f"{where}: Redis {version} is too old; 7.0 or Valkey 7.2 is the oldest that is supported")
    if info.get("redis_mode") == "cluster" or info.get("cluster_enabled") == "1":
        raise UnsuitableStore(f"{where}: the server runs in cluster mode, which is not supported")
    if info.get("loading") == "1":
        raise StoreLoading(f"{where}: the server is loading its data")
    if info.get("role") == "slave" and sentinel:
        raise StoreUnavailable(f"{where}: the server that the Sentinels name is a replica")
    if info.get("role") == "slave":
        raise UnsuitableStore(f"{where}: the server is a read-only replica; name its primary")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnsuitableStore(
            f"{where}: maxmemory-policy is {policy}, so the server may throw objects away; set it to noeviction"
        )
    return info


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
    return UnsuitableStore(f"{where}: {text}")


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
