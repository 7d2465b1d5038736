"""Makes the store for a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kapi.process.reactor import Reactor
from kapi.store.address import Address, Dial, parse
from kapi.store.embedded import EmbeddedValkey
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.interface import Follower
from kapi.store.redis_store import RedisStore
from kapi.store.shared_revisions import SharedRevisions


class EmbeddedStore(RedisStore):
    """The store in a data directory; its server is started before it and stopped after it."""

    def __init__(self, directory: str | Path, reactor: Reactor, *, prefix: str = "kapi") -> None:
        self.server = EmbeddedValkey(directory, reactor)
        super().__init__(Address(path=self.server.socket_path), reactor, prefix=prefix, exclusive=True)

    def launch(self) -> None:
        self.server.launch()

    def abandon(self) -> None:
        self.server.abandon()

    async def start(self, follower: Follower | None = None) -> None:
        await self.server.start()
        try:
            await super().start(follower)
        except StoreUnavailable:
            refusal = await self.server.refusal()
            await self.server.stop()
            if refusal is not None:
                raise refusal from None
            raise
        except BaseException:
            await self.server.stop()
            raise
        self.server.supervise()

    async def stop(self) -> None:
        await super().stop()
        await self.server.stop()


def shared_store(
    directory: str | Path,
    reactor: Reactor,
    *,
    prefix: str = "kapi",
    start_timeout: float,
    shared: SharedRevisions | None = None,
) -> RedisStore:
    """The store of a worker process: the supervisor process starts, restarts and stops the server.

    ``start_timeout``: as for ``external_store``; ``shared`` is the memory that all workers share.
    """
    path = EmbeddedValkey(directory, reactor).socket_path
    return RedisStore(Address(path=path), reactor, prefix=prefix, start_timeout=start_timeout, shared=shared)


def external_store(
    where: str | Address,
    reactor: Reactor,
    *,
    prefix: str = "kapi",
    min_replicas: int | None = None,
    start_timeout: float = 0.0,
    dial: Dial | None = None,
) -> RedisStore:
    """The store at a URL (see ``kapi.store.address``) or at a parsed one.  Raises UnsuitableStore when it cannot be read.

    ``min_replicas`` is how many replicas must have a write before it is acknowledged; None means 1 with Sentinels, else 0.
    ``start_timeout``: how many seconds ``start`` waits for the server; ``dial`` makes the endpoints of hosts.
    """
    try:
        address = replace(parse(where) if isinstance(where, str) else where, dial=dial)
    except ValueError as error:
        raise UnsuitableStore(f"--redis-servers: {error}") from None
    if min_replicas is None:
        min_replicas = 1 if address.master else 0
    return RedisStore(address, reactor, prefix=prefix, min_replicas=min_replicas, start_timeout=start_timeout)
