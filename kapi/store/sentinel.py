"""Finding the primary through Sentinels: the first that knows it is believed."""

from __future__ import annotations

from typing import Any

import txredisapi
from twisted.internet import defer

from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionFactory, ConnectionGone
from kapi.store.errors import StoreUnavailable

_PATIENCE = 5  # seconds a Sentinel may take


async def find_primary(reactor: Any, address: Address) -> tuple[str, int]:
    """Host and port.  Raises StoreUnavailable when no Sentinel can tell."""
    problems: list[str] = []
    for host, port in address.hosts:
        try:
            found = await defer.Deferred.fromCoroutine(_ask(reactor, address, host, port)).addTimeout(
                _PATIENCE, reactor
            )
        except (ConnectionGone, txredisapi.ResponseError, OSError, defer.TimeoutError) as error:
            problems.append(f"{host}:{port}: {error or type(error).__name__}")
            continue
        except defer.CancelledError:
            raise
        except Exception as error:
            problems.append(f"{host}:{port}: {error or type(error).__name__}")
            continue
        if found is not None:
            return found
        problems.append(f"{host}:{port}: does not know {address.master!r}")
    raise StoreUnavailable(f"{address}: no primary found: {'; '.join(problems)}")


async def _ask(reactor: Any, address: Address, host: str, port: int) -> tuple[str, int] | None:
    connection: Connection = await address.endpoint(reactor, host, port).connect(ConnectionFactory())
    try:
        reply = await connection.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", address.master)
    finally:
        connection.abort()
    return None if not reply else (reply[0].decode(), int(reply[1]))
