"""One connection to a store's server for a command such as ``kapi backup``, which neither writes objects nor follows changes."""

from __future__ import annotations

import txredisapi
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.process.reactor import Reactor
from kapi.process.timers import Repeated
from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionGone
from kapi.store.connections import CHECK_SECONDS, Connections
from kapi.store.errors import StoreLoading, StoreUnavailable
from kapi.store.failover import find_primary
from kapi.store.suitability import check, refusal

log = Logger()

_LOADING_SECONDS = 300.0  # the most seconds to wait for a server that loads its data
_RETRY_SECONDS = 0.1


class Session:
    """An asynchronous context manager, in which ``connection`` can be used.

    Waits for a server that loads its data, and for no other.  Errors of the connection and of the server come out of it as
    UnsuitableStore or StoreUnavailable.
    """

    connection: Connection

    def __init__(self, address: Address, reactor: Reactor) -> None:
        self._address = address
        self._reactor = reactor
        self._connections = Connections(address, reactor)
        self._watchdog = Repeated(self._check, reactor, "watching the store")

    def _check(self) -> None:
        self._connections.end_silent()

    async def __aenter__(self) -> Session:
        end = self._reactor.seconds() + _LOADING_SECONDS
        self._watchdog.start(CHECK_SECONDS)
        try:
            while not await self._opened(end):
                await deferLater(self._reactor, _RETRY_SECONDS)
        except BaseException:
            self._close()
            raise
        return self

    async def _opened(self, end: float) -> bool:
        """False while the server loads its data."""
        where, sentinels = str(self._address), bool(self._address.master)
        if sentinels:
            self._connections.place = await find_primary(self._reactor, self._address)
        try:
            self.connection = await self._connections.connect()
            await check(self.connection, where, sentinels)
        except StoreLoading:
            if self._reactor.seconds() >= end:
                raise
            self._connections.drop()
            return False
        except ConnectionGone as error:
            raise StoreUnavailable(f"{where}: {error}") from None
        return True

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._close()
        if isinstance(error, ConnectionGone):
            raise StoreUnavailable(f"{self._address}: {error}") from None
        if isinstance(error, txredisapi.RedisError):
            raise refusal(str(self._address), error) from None

    def _close(self) -> None:
        self._watchdog.stop()
        self._connections.drop()
