"""The connections of a store to one server: opened and logged in, watched, and ended together."""

from __future__ import annotations

import txredisapi
from twisted.internet import defer
from twisted.internet.interfaces import IReactorTime

from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionFactory, ConnectionGone
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.suitability import refusal

REPLY_TIMEOUT = 8.0  # seconds without any reply while one is owed; longer than any command blocks
LOOK = 1.0  # seconds between looks at the connections


class Connections:
    """``place`` is the host and port that Sentinels named, ("", 0) without them."""

    def __init__(self, address: Address, reactor: IReactorTime) -> None:
        self.address = address
        self.place: tuple[str, int] = ("", 0)
        self.open: list[Connection] = []
        self._reactor = reactor
        self._silent: dict[Connection, tuple[int, int]] = {}  # replies so far, and looks since the last one

    async def connect(self) -> Connection:
        """A connection that is logged in.  Raises StoreUnavailable, UnsuitableStore."""
        address = self.address
        try:
            endpoint = address.endpoint(self._reactor, *self.place)
            connection: Connection = await endpoint.connect(ConnectionFactory(self._reactor))
        except defer.CancelledError:
            raise
        except UnsuitableStore:
            raise
        except Exception as error:
            raise StoreUnavailable(f"{address}: cannot connect: {error or type(error).__name__}") from None
        self.open.append(connection)
        try:
            await log_in(connection, address)
        except txredisapi.ResponseError as error:
            raise refusal(str(address), error) from None
        except ConnectionGone as error:
            raise StoreUnavailable(f"{address}: {error}") from None
        return connection

    async def any_lost(self) -> str:
        """Why the first one went."""
        why, _ = await defer.DeferredList([connection.lost for connection in self.open], fireOnOneCallback=True)
        return str(why)

    def drop(self) -> None:
        """Ends all."""
        connections, self.open = self.open, []
        for connection in connections:
            connection.abort()
        self._silent.clear()

    def silence(self, connection: Connection) -> float:
        """For how many seconds it owed a reply and said nothing, at the last look."""
        received, silent = self._silent.get(connection, (-1, 0))
        return silent * LOOK if received == connection.received and connection.pending else 0.0

    def end_silent(self) -> bool:
        """Ends connections that owe a reply and say nothing: a stopped server, a dead network.  To be called each LOOK.

        Looks are counted, not seconds: when this process itself was held up, the reply may be waiting to be read.
        """
        ended = False
        for connection in self.open:
            received, silent = self._silent.get(connection, (-1, 0))
            silent = silent + 1 if received == connection.received and connection.pending else 0
            self._silent[connection] = (connection.received, silent)
            if silent * LOOK >= REPLY_TIMEOUT:
                ended = True
                connection.abort(f"no answer for {REPLY_TIMEOUT:.0f} s")
        return ended


async def log_in(connection: Connection, address: Address) -> None:
    """AUTH and SELECT as the address says."""
    if address.username:
        await connection.execute_command("AUTH", address.username, address.password)
    elif address.password:
        await connection.execute_command("AUTH", address.password)
    if address.database:
        await connection.execute_command("SELECT", address.database)
