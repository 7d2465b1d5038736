"""Connections to a store's server that do not come about."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.store import primary_connection
from kapi.store.connection import Connection
from kapi.store.connections import CONNECT_TIMEOUT, Connections
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.primary_connection import RECONNECT_BACKOFF, PrimaryConnection
from kapi.store.redis_store import RedisStore
from kapi.store.script import Keys
from kapi.store.suitability import check_rights
from kapi.store.tls import client_options
from tests.store.test_connection import Transport


class Attempts:
    """An address at which nothing answers; the hosts that were tried, and the attempts that still wait."""

    def __init__(self, master: str = "") -> None:
        self.master = master
        self.hosts = (("sentinel", 1),)
        self.tried: list[str] = []
        self.waiting: list[Deferred[None]] = []

    def endpoint(self, reactor: Any, host: str = "", port: int = 0) -> Any:
        self.tried.append(host)

        def connect(factory: object) -> Deferred[None]:
            attempt: Deferred[None] = Deferred(self.waiting.remove)
            self.waiting.append(attempt)
            return attempt

        return SimpleNamespace(connect=connect)


class Connecting(SynchronousTestCase):
    def reconnecting(self, address: Attempts) -> tuple[Clock, PrimaryConnection]:
        """A store whose connection was lost."""
        clock = Clock()
        store = PrimaryConnection(address, clock)  # type: ignore[arg-type]
        store._running = Deferred.fromCoroutine(store._keep_connected())
        clock.advance(RECONNECT_BACKOFF[0])
        self.assertEqual(len(address.waiting), 1)
        return clock, store

    def test_the_end_does_not_wait_for_an_attempt(self) -> None:
        address = Attempts()
        clock, store = self.reconnecting(address)
        self.successResultOf(ensureDeferred(store.stop()))
        self.assertEqual((address.waiting, clock.getDelayedCalls()), ([], []))

    def test_at_the_end_commands_under_way_are_answered_and_nothing_else_is_waited_for(self) -> None:
        clock = Clock()
        store = PrimaryConnection(Attempts(), clock)  # type: ignore[arg-type]
        transports = [Transport(), Transport()]
        for transport in transports:
            connection = Connection(clock)  # type: ignore[arg-type]  # a clock is enough
            connection.makeConnection(transport)
            store._connections.open.append(connection)
        commands, feed = store._connections.open
        store._connection = commands
        answered, _ = commands.execute_command("PING", 1), feed.execute_command("XREAD", "$")
        clock.advance(0)
        ending = ensureDeferred(store.stop())
        self.assertEqual([each.disconnecting for each in transports], [False, True])
        commands.dataReceived(b":1\r\n")
        self.assertEqual(self.successResultOf(answered), 1)
        clock.advance(1)
        self.successResultOf(ending)
        self.assertEqual([each.disconnecting for each in transports], [True, True])

    def test_an_attempt_at_the_former_primary_is_given_up_for_the_next(self) -> None:
        async def find(reactor: object, address: object) -> tuple[str, int]:
            return self.primary

        self.patch(primary_connection, "find_primary", find)
        self.patch(primary_connection, "Sentinels", lambda *of: None)
        self.primary = ("former", 1)
        address = Attempts("mymaster")
        clock, store = self.reconnecting(address)
        self.primary = ("next", 1)
        store._named(self.primary)
        clock.advance(RECONNECT_BACKOFF[0])
        self.assertEqual((address.tried, len(address.waiting)), (["former", "next"], 1))
        self.successResultOf(ensureDeferred(store.stop()))
        self.flushLoggedErrors()

    def test_who_cancels_an_attempt_is_told_so(self) -> None:
        attempt = ensureDeferred(Connections(Attempts(), Clock()).connect())  # type: ignore[arg-type]
        attempt.cancel()
        self.failureResultOf(attempt, CancelledError)

    def test_a_start_that_waits_for_the_store_ends_with_it(self) -> None:
        clock, tried = Clock(), []

        def refuse(factory: object) -> Deferred[None]:
            tried.append(clock.seconds())
            return fail(ConnectionRefusedError("refused"))

        address: Any = SimpleNamespace(endpoint=lambda *of: SimpleNamespace(connect=refuse), master="")
        store = PrimaryConnection(address, clock, start_timeout=60.0)  # type: ignore[arg-type]  # a clock is enough
        starting = ensureDeferred(store.start())
        clock.advance(5)
        self.assertNoResult(starting)
        before = list(tried)
        self.successResultOf(ensureDeferred(store.stop()))
        self.failureResultOf(starting, StoreUnavailable)
        self.assertEqual((tried, clock.getDelayedCalls()), (before, []))

    def logging_in(self) -> tuple[Deferred[Connection], Connection]:
        connection = Connection(Clock())  # type: ignore[arg-type]  # a clock is enough
        connection.makeConnection(Transport())
        endpoint = SimpleNamespace(connect=lambda factory: succeed(connection))
        address: Any = SimpleNamespace(endpoint=lambda *of: endpoint, login=("me", "secret"), database=3)
        return ensureDeferred(Connections(address, Clock()).connect()), connection

    def test_a_server_that_goes_while_it_is_logged_in_to_cannot_be_reached(self) -> None:
        connecting, connection = self.logging_in()
        connection.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(connecting, StoreUnavailable)

    def test_what_a_server_says_to_a_login_is_told(self) -> None:
        for replies, why in (
            (b"-WRONGPASS invalid username-password pair\r\n", ": WRONGPASS invalid username-password pair"),
            (b"+OK\r\n-ERR DB index is out of range\r\n", ": the server has no database 3"),
            (b"+OK\r\n-NOPERM no permissions to run 'select'\r\n", ": NOPERM no permissions to run 'select'"),
        ):
            connecting, connection = self.logging_in()
            for reply in replies.splitlines(keepends=True):
                connection.dataReceived(reply)
            self.assertIn(why, str(self.failureResultOf(connecting, UnsuitableStore).value))

    def test_what_a_server_says_to_the_check_of_rights_is_told(self) -> None:
        connection, keys = Connection(Clock()), Keys.under("kapi")  # type: ignore[arg-type]  # a clock is enough
        connection.makeConnection(Transport())
        for reply, kind, why in (
            (b"-BUSY a script is running\r\n", StoreUnavailable, "there: BUSY a script is running"),
            (
                b"-NOAUTH Authentication required.\r\n",
                UnsuitableStore,
                "required. The URL names the user, and password-file=",
            ),
            (
                b"-DENIED it is in protected mode.\r\n",
                UnsuitableStore,
                "protected mode. Give the server a password, or let",
            ),
            (b"-NOPERM the user 'me' has no rights for the key 'x'\r\n", UnsuitableStore, "may not use kapi's keys"),
            (b"-NOPERM the user 'me' may not run the 'eval' command\r\n", UnsuitableStore, "may not run EVAL"),
        ):
            checking = ensureDeferred(check_rights(connection, keys, "there", "me"))
            connection.dataReceived(reply)
            self.assertIn(why, str(self.failureResultOf(checking, kind).value))

    def test_figures_of_a_server_that_does_not_tell_them(self) -> None:
        for reply in (b"-NOPERM no permissions to run 'info'\r\n", None):
            store = RedisStore(Attempts(), Clock())  # type: ignore[arg-type]
            store._connection = connection = Connection(Clock())  # type: ignore[arg-type]
            connection.makeConnection(Transport())
            asked = ensureDeferred(store.info())
            if reply is None:
                connection.connectionLost(Failure(ConnectionDone()))
            else:
                connection.dataReceived(reply)
            self.failureResultOf(asked, StoreUnavailable)

    def test_a_file_without_a_certificate_is_named(self) -> None:
        with self.assertRaisesRegex(ValueError, f"^{__file__}: "):
            client_options("store.example", __file__, "", "")

    def test_a_name_that_is_looked_up_for_ever_is_given_up(self) -> None:
        """The resolver's own limit is that of /etc/resolv.conf, if any; an attempt's begins when an address is known."""
        clock = Clock()
        lookup: Deferred[None] = Deferred()
        endpoint = SimpleNamespace(connect=lambda factory: lookup)
        address: Any = SimpleNamespace(endpoint=lambda *of: endpoint)
        connecting = ensureDeferred(Connections(address, clock).connect())
        clock.advance(CONNECT_TIMEOUT - 1)
        self.assertNoResult(connecting)
        clock.advance(1)
        self.failureResultOf(connecting, StoreUnavailable)
        self.assertEqual(clock.getDelayedCalls(), [])
