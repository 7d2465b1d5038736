"""Tunnels whose one end goes: the other one gets what is left, and holds nothing when it does not take it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints.tunnel import CLOSE_TIMEOUT, MAX_BODY_BYTES, TunnelBackend
from kapi.wire.answer import MAX_HEAD, BadAnswer

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
        return b"sent early"


class Tunnels(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.http, self.backend = Clock(), Http(), Transport()
        self.client = self.http.transport
        self.tunnel = TunnelBackend(self.http, b"POST / HTTP/1.1\r\n\r\n", self.clock)  # type: ignore[arg-type]
        self.tunnel.makeConnection(self.backend)

    def upgrade(self) -> None:
        self.tunnel.dataReceived(UPGRADED)

    def test_what_the_client_has_sent_before_the_answer_comes_first(self) -> None:
        self.backend.clear()
        self.upgrade()
        self.http.channel.dataReceived(b", and later")  # type: ignore[attr-defined]
        self.assertEqual(self.backend.value(), b"sent early, and later")

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

    def refused(self) -> tuple[int, bytes]:
        answer, start = self.successResultOf(self.tunnel.decided)
        return answer.code, start

    def test_a_refusal_ends_where_its_head_says_though_the_backend_keeps_the_connection(self) -> None:
        for pieces, wanted in (
            ((b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nn", b"o"), b"no"),
            ((b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", b"and more"), b"no"),
            ((b"HTTP/1.1 403 No\nContent-Length: 2\n\nno",), b"no"),
            ((b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nne\r\n3\r\nver\r\n", b"0\r\n\r\n"), b"never"),
            ((b"HTTP/1.1 403 No\r\n\r\n" + b"x" * (MAX_BODY_BYTES + 1),), b"x" * MAX_BODY_BYTES),
            ((b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" + b"x" * 0x20000 + b"broken",),
             b"x" * MAX_BODY_BYTES),
        ):  # fmt: skip
            self.setUp()
            for piece in pieces:
                self.tunnel.dataReceived(piece)
            self.assertEqual(self.refused(), (403, wanted))
            self.assertTrue(self.backend.aborted)

    def test_a_refusal_without_a_length_ends_with_its_connection(self) -> None:
        self.tunnel.dataReceived(b"HTTP/1.1 403 No\r\n\r\nne")
        self.tunnel.dataReceived(b"ver")
        self.assertNoResult(self.tunnel.decided)
        self.tunnel.connectionLost(GONE)
        self.assertEqual(self.refused(), (403, b"never"))

    def test_a_backend_that_goes_before_it_has_answered_refuses_nothing(self) -> None:
        self.tunnel.dataReceived(b"HTTP/1.1 403 No\r\n")
        self.tunnel.connectionLost(GONE)
        self.failureResultOf(self.tunnel.decided, ConnectionDone)

    def test_a_refusal_of_a_head_request_has_no_body(self) -> None:
        self.tunnel = TunnelBackend(self.http, b"HEAD / HTTP/1.1\r\n\r\n", self.clock)  # type: ignore[arg-type]
        self.tunnel.makeConnection(self.backend)
        self.tunnel.dataReceived(b"HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\n")
        self.assertEqual(self.refused(), (403, b""))

    def test_what_is_no_answer_opens_no_tunnel(self) -> None:
        for text in (
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nno colon\r\n\r\n",
            b"HTTP/1.1 403 No\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
            b"HTTP/1.1 403 No\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
            b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            b"x" * (MAX_HEAD + 1),
        ):
            self.setUp()
            self.tunnel.dataReceived(text)
            self.failureResultOf(self.tunnel.decided, BadAnswer)
            self.assertTrue(self.backend.aborted)
            self.assertEqual(self.client.value(), b"")
