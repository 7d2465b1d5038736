"""The connections of a store to one server: opening them with a login, watching them, and ending them together."""

from __future__ import annotations

from typing import NoReturn

import txredisapi
from twisted.internet import defer
from twisted.internet.interfaces import IReactorTime

from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionFactory, ConnectionGone
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.suitability import refusal

REPLY_TIMEOUT = 8.0  # seconds without any reply while one is expected; longer than any command blocks
CONNECT_TIMEOUT = 15.0  # seconds for a connection, with the look-up of its name and attempts at each address
CHECK_SECONDS = 1.0  # between checks of the connections


class GivenUp(StoreUnavailable):
    """``Connections.drop`` has ended the attempt; its caller knows why."""


class Connections:
    """``place`` is the host and port of the primary that the Sentinels named, ("", 0) without Sentinels."""

    def __init__(self, address: Address, reactor: IReactorTime) -> None:
        self.address = address
        self.place: tuple[str, int] = ("", 0)
        self.open: list[Connection] = []
        self._reactor = reactor
        self._attempts: set[defer.Deferred[Connection]] = set()
        self._silent: dict[
            Connection, tuple[int, int]
        ] = {}  # the number of replies, and of checks since the last reply

    async def connect(self) -> Connection:
        """Opens a connection and logs in.  Raises StoreUnavailable, UnsuitableStore."""
        address = self.address
        attempt: defer.Deferred[Connection] = defer.Deferred.fromCoroutine(self._attempt())
        self._attempts.add(attempt)
        try:
            connection = await attempt
        except (defer.CancelledError, StoreUnavailable):
            if attempt not in self._attempts:
                raise GivenUp(f"{address}: the attempt to connect was given up") from None
            raise
        finally:
            self._attempts.discard(attempt)
        self.open.append(connection)
        try:
            await log_in(connection, address)
        except txredisapi.ResponseError as error:
            raise refusal(str(address), error) from None
        except ConnectionGone as error:
            raise StoreUnavailable(f"{address}: {error}") from None
        return connection

    async def _attempt(self) -> Connection:
        address = self.address
        try:
            endpoint = address.endpoint(self._reactor, *self.place)
            connecting = endpoint.connect(ConnectionFactory(self._reactor))
            connection: Connection = await connecting.addTimeout(CONNECT_TIMEOUT, self._reactor, _too_late)
        except defer.CancelledError:
            raise
        except UnsuitableStore:
            raise
        except Exception as error:
            raise StoreUnavailable(f"{address}: cannot connect: {str(error) or type(error).__name__}") from None
        return connection

    async def any_lost(self) -> str:
        """Waits until one of them is lost; returns why."""
        why, _ = await defer.DeferredList([connection.lost for connection in self.open], fireOnOneCallback=True)
        return str(why)

    def drop(self) -> None:
        """Ends all connections, and attempts at one."""
        connections, self.open = self.open, []
        for connection in connections:
            connection.abort()
        self._silent.clear()
        attempts, self._attempts = self._attempts, set()
        for attempt in attempts:
            attempt.cancel()

    def silence(self, connection: Connection) -> float:
        """How many seconds the connection had been waiting for a reply, at the last check."""
        received, silent = self._silent.get(connection, (-1, 0))
        return silent * CHECK_SECONDS if received == connection.received and connection.pending else 0.0

    def end_silent(self) -> None:
        """Ends connections that get no reply: the server is stopped, or the network broken.

        Must be called every ``CHECK_SECONDS``.  Calls are counted and not seconds: after a pause of this process itself, the
        reply may have arrived but not been read yet.
        """
        for connection in self.open:
            received, silent = self._silent.get(connection, (-1, 0))
            silent = silent + 1 if received == connection.received and connection.pending else 0
            self._silent[connection] = (connection.received, silent)
            if silent * CHECK_SECONDS >= REPLY_TIMEOUT:
                connection.abort(f"no answer for {REPLY_TIMEOUT:.0f} s{connection.advice}")


def _too_late(result: object, seconds: float) -> NoReturn:
    raise TimeoutError(f"nothing came of it for {seconds:.0f} s")


async def log_in(connection: Connection, address: Address) -> None:
    """Sends AUTH and SELECT with the login and database of the address."""
    login = address.login
    if login:
        await connection.execute_command("AUTH", *login)
    if address.database:
        try:
            await connection.execute_command("SELECT", address.database)
        except txredisapi.ResponseError as error:
            if "out of range" not in str(error):
                raise
            raise UnsuitableStore(f"{address}: the server has no database {address.database}") from None
