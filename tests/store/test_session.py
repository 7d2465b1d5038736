"""A connection for a command: servers that load are waited for, and errors say what became of the store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import txredisapi
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.store import session
from kapi.store.connection import Connection, ConnectionGone
from kapi.store.errors import StoreLoading, StoreUnavailable, UnsuitableStore
from kapi.store.session import Session
from tests.store.test_connection import Transport


class Sessions(SynchronousTestCase):
    def use(self, *checks: Exception | None, error: Exception | None = None) -> Deferred[str]:
        """Uses a store whose checks have these outcomes, the last one again and again; ``error`` is raised meanwhile."""
        self.clock, left = Clock(), list(checks)
        self.connections: list[Connection] = []

        def connect(factory: object) -> Deferred[Connection]:
            self.connections.append(Connection(self.clock))  # type: ignore[arg-type]  # a clock is enough
            self.connections[-1].makeConnection(Transport())
            return succeed(self.connections[-1])

        async def check(*of: object) -> None:
            outcome = left.pop(0) if len(left) > 1 else left[0]
            if outcome is not None:
                raise outcome

        async def used() -> str:
            async with Session(address, self.clock):  # type: ignore[arg-type]
                if error is not None:
                    raise error
            return "used"

        self.patch(session, "check", check)
        endpoint = SimpleNamespace(connect=connect)
        address: Any = SimpleNamespace(endpoint=lambda *of: endpoint, master="", login=None, database=0)
        return ensureDeferred(used())

    def assert_closed(self) -> None:
        self.assertEqual({connection.transport.disconnected for connection in self.connections}, {True})
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_server_that_loads_is_waited_for(self) -> None:
        using = self.use(StoreLoading("loads"), StoreLoading("loads"), None)
        self.clock.pump([0.1] * 100)
        self.assertEqual((self.successResultOf(using), len(self.connections)), ("used", 3))
        self.assert_closed()

    def test_it_is_not_waited_for_for_ever(self) -> None:
        self.patch(session, "_LOADING_SECONDS", 10.0)
        using = self.use(StoreLoading("loads"))
        self.clock.pump([0.1] * 95)
        self.assertNoResult(using)
        self.clock.pump([0.1] * 20)
        self.failureResultOf(using, StoreLoading)
        self.assert_closed()

    def test_errors_are_those_of_a_store(self) -> None:
        gone, denied = ConnectionGone("the server has gone"), txredisapi.ResponseError("NOPERM no permissions")
        unsuitable, fault = UnsuitableStore("it is a replica"), ValueError("a bug")
        for check, error, kind, why in (
            (gone, None, StoreUnavailable, ": the server has gone"),
            (unsuitable, None, UnsuitableStore, "it is a replica"),
            (None, gone, StoreUnavailable, ": the server has gone"),
            (None, denied, UnsuitableStore, ": NOPERM no permissions"),
            (None, fault, ValueError, "a bug"),
        ):
            failure = self.failureResultOf(self.use(check, error=error))
            self.assertIs(failure.type, kind)
            self.assertIn(why, str(failure.value))
            self.assert_closed()
