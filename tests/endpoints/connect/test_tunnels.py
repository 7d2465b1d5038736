"""Tunnels whose one end goes: the other one gets what is left, and holds nothing when it does not take it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints.tunnel import CLOSE_TIMEOUT, TunnelBackend

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n"
GONE = Failure(ConnectionDone())


class Transport(StringTransport):
    """``lost`` is called by whoever drives it: one that is closed and not read stays open."""

    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True


class Http:
    """A request whose connection can be taken over."""

    def __init__(self) -> None:
        self.channel = self
        self.transport: Any = Transport()
        self.transport.wrappedProtocol = self
        self.transport.registerProducer(self, True)

    def unread(self) -> bytes:
        return b""


class Tunnels(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.http, self.backend = Clock(), Http(), Transport()
        self.client = self.http.transport
        self.tunnel = TunnelBackend(self.http, b"POST / HTTP/1.1\r\n\r\n", self.clock)  # type: ignore[arg-type]
        self.tunnel.makeConnection(self.backend)

    def upgrade(self) -> None:
        self.tunnel.dataReceived(UPGRADED)

    def test_a_client_that_does_not_take_the_last_bytes_of_a_backend_that_went_is_dropped(self) -> None:
        self.upgrade()
        self.tunnel.connectionLost(GONE)
        self.assertTrue(self.client.disconnecting)
        self.clock.advance(CLOSE_TIMEOUT - 1)
        self.assertFalse(self.client.aborted)
        self.clock.advance(1)
        self.assertTrue(self.client.aborted)

    def test_a_backend_that_does_not_take_the_last_bytes_of_a_client_that_went_is_dropped(self) -> None:
        self.upgrade()
        self.http.channel.connectionLost(GONE)  # type: ignore[attr-defined]
        self.assertTrue(self.backend.disconnecting)
        self.clock.advance(CLOSE_TIMEOUT - 1)
        self.assertFalse(self.backend.aborted)
        self.clock.advance(1)
        self.assertTrue(self.backend.aborted)

    def test_when_both_have_gone_nothing_is_left(self) -> None:
        for first_backend in (True, False):
            self.setUp()
            self.upgrade()
            ends = [self.tunnel, self.http.channel]
            for end in ends if first_backend else reversed(ends):
                end.connectionLost(GONE)  # type: ignore[attr-defined]
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_backend_that_never_decides_is_dropped_with_the_request(self) -> None:
        """Its connection would stay for as long as it likes: a request to upgrade has no deadline."""
        self.tunnel.decided.cancel()
        self.failureResultOf(self.tunnel.decided, CancelledError)
        self.assertTrue(self.backend.aborted)
