"""Makes the store a configuration asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kapi.request.reactor import Reactor
from kapi.store.address import Address, Dial, parse
from kapi.store.embedded import EmbeddedValkey
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.interface import Follower
from kapi.store.redis_store import RedisStore
from kapi.store.shared_revisions import SharedRevisions


class EmbeddedStore(RedisStore):
    """A Redis store whose server is ours: started before it and stopped after it."""

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


def embedded_store(directory: str | Path, reactor: Reactor, *, prefix: str = "kapi") -> EmbeddedStore:
    """The store in a data directory, whose server starts and ends with it."""
    return EmbeddedStore(directory, reactor, prefix=prefix)


def shared_store(
    directory: str | Path,
    reactor: Reactor,
    *,
    prefix: str = "kapi",
    patience: float = 0.0,
    shared: SharedRevisions | None = None,
) -> RedisStore:
    """The same for one of several processes: another one starts and ends the server, and starts it again.

    ``patience``: as below; ``shared`` is the memory of all workers.
    """
    path = EmbeddedValkey(directory, reactor).socket_path
    return RedisStore(Address(path=path), reactor, prefix=prefix, patience=patience, shared=shared)


def external_store(
    url: str,
    reactor: Reactor,
    *,
    prefix: str = "kapi",
    min_replicas: int | None = None,
    patience: float = 0.0,
    dial: Dial | None = None,
) -> RedisStore:
    """The store at a URL (see ``kapi.store.address``).  Raises UnsuitableStore when it cannot be read.

    ``min_replicas`` must have a write before it is acknowledged: None is 1 where Sentinels choose the primary, else 0.
    ``patience``: seconds that the server may be away when the store is started; ``dial`` makes the endpoints of hosts.
    """
    try:
        address = parse(url)
    except ValueError as error:
        raise UnsuitableStore(f"--redis-servers: {error}") from None
    return store_at(address, reactor, prefix=prefix, min_replicas=min_replicas, patience=patience, dial=dial)


def store_at(
    address: Address,
    reactor: Reactor,
    *,
    prefix: str = "kapi",
    min_replicas: int | None = None,
    patience: float = 0.0,
    dial: Dial | None = None,
) -> RedisStore:
    """As ``external_store``, of a URL that was read."""
    address = replace(address, dial=dial)
    if min_replicas is None:
        min_replicas = 1 if address.master else 0
    return RedisStore(address, reactor, prefix=prefix, min_replicas=min_replicas, patience=patience)
