"""Finding the primary: all Sentinels are asked, and the answer with the newest configuration counts."""

from __future__ import annotations

from typing import NamedTuple

import txredisapi
from twisted.internet import defer
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionFactory
from kapi.store.errors import StoreUnavailable
from kapi.store.reply import Reply

SENTINEL_TIMEOUT = 2.0  # seconds for a Sentinel to answer


class Primary(NamedTuple):
    """A Sentinel's answer; ordered by the epoch of its configuration."""

    epoch: int
    host: str
    port: int
    down: bool  # whether enough Sentinels consider it down, or it is being replaced
    down_after: float  # seconds of silence after which a Sentinel considers it down
    failover_timeout: float = 180.0  # seconds for a step of a fail-over

    @property
    def place(self) -> tuple[str, int]:
        return self.host, self.port


async def find_primary(reactor: IReactorTime, address: Address) -> tuple[str, int]:
    """The host and port of the primary.  Raises StoreUnavailable when no Sentinel knows it."""
    asked = [
        defer.Deferred.fromCoroutine(_ask(reactor, address, host, port)).addTimeout(SENTINEL_TIMEOUT, reactor)
        for host, port in address.hosts
    ]
    found: list[Primary] = []
    problems: list[str] = []
    answers: list[tuple[bool, Reply]] = await defer.DeferredList(asked, consumeErrors=True)
    for (host, port), (fine, result) in zip(address.hosts, answers, strict=True):
        if not fine:
            problems.append(f"{host}:{port}: {_why(result, address.tls)}")
        elif result is None:
            problems.append(f"{host}:{port}: does not know {address.master!r}")
        else:
            found.append(result)
    if not found:
        raise StoreUnavailable(f"{address}: no primary found: {'; '.join(problems)}")
    return max(found).place


def _why(failure: Failure, tls: bool) -> str:
    if failure.check(defer.TimeoutError):
        return f"no answer for {SENTINEL_TIMEOUT:.0f} s" + (
            "; if it does not speak TLS, use redis+sentinel://" if tls else ""
        )
    return failure.getErrorMessage() or type(failure.value).__name__


async def _ask(reactor: IReactorTime, address: Address, host: str, port: int) -> Primary | None:
    connection: Connection = await address.endpoint(reactor, host, port).connect(ConnectionFactory())
    try:
        return await ask(connection, address)
    finally:
        connection.abort()


async def ask(connection: Connection, address: Address) -> Primary | None:
    """The answer of the Sentinel at the other end, after AUTH if that is required; None when it does not know the service.

    Raises ConnectionGone, txredisapi.ResponseError.
    """
    try:
        reply = await connection.execute_command("SENTINEL", "MASTER", address.master)
    except txredisapi.ResponseError as error:
        if str(error).startswith("ERR No such master"):
            return None
        if str(error).startswith("ERR unknown command"):
            raise StoreUnavailable("it is not a Sentinel: redis:// is for the server itself") from None
        login = address.sentinel_login
        if not str(error).startswith("NOAUTH") or not login:
            raise
        await connection.execute_command("AUTH", *login)
        return await ask(connection, Address(hosts=address.hosts, master=address.master))
    fields = dict(zip(reply[::2], reply[1::2], strict=False))
    return Primary(
        int(fields.get(b"config-epoch", 0)),
        fields[b"ip"].decode(),
        int(fields[b"port"]),
        any(flag in fields.get(b"flags", b"") for flag in (b"o_down", b"failover_in_progress")),
        int(fields.get(b"down-after-milliseconds", 30000)) / 1000,
        int(fields.get(b"failover-timeout", 180000)) / 1000,
    )
