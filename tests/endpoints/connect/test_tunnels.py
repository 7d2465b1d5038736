"""Tunnels whose one end goes: the other one gets what is left, and holds nothing when it does not take it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints import tunnel as tunnels
from kapi.endpoints.tunnel import (
    NotUpgradable,
    TakenConnection,
    Throttle,
    TunnelBackend,
    wants_upgrade,
    wants_websocket,
)
from kapi.wire.answer import MAX_HEAD, BadAnswer
from tests.filters.requests import request

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n"
GONE = Failure(ConnectionDone())
LOOK_SECONDS = 5  # between looks at an end that is paused
CLOSE_TIMEOUT = 60  # seconds for the last bytes
MAX_BODY_BYTES = 65_536


class Transport(StringTransport):
    """``lost`` is called by whoever drives it: one that is closed and not read stays open."""

    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True


class Read(Transport):
    """One whose reading is seen in ``producerState``; ``StringTransport`` allows no second pause."""

    def pauseProducing(self) -> None:
        self.producerState = "paused"

    def resumeProducing(self) -> None:
        self.producerState = "producing"

    def stopProducing(self) -> None:
        self.producerState = "stopped"


class Http:
    """A request whose connection can be taken over."""

    def __init__(self, transport: Any = None) -> None:
        self.channel = self
        self.transport: Any = transport or Transport()
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

    def test_what_comes_after_the_decision_changes_nothing(self) -> None:
        for first, outcome in (
            (b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", (403, b"no")),
            (b"nonsense\n\n", None),
        ):
            for later in (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"nonsense\n\n"):
                self.setUp()
                self.tunnel.dataReceived(first)
                self.tunnel.dataReceived(later)
                self.tunnel.connectionLost(GONE)
                if outcome is None:
                    self.failureResultOf(self.tunnel.decided, BadAnswer)
                else:
                    self.assertEqual(self.refused(), outcome)
                self.assertEqual(self.client.value(), b"")

    def test_a_client_whose_connection_cannot_be_taken_over_is_told_so(self) -> None:
        self.http.transport = None
        self.upgrade()
        failure = self.failureResultOf(self.tunnel.decided, NotUpgradable)
        self.assertEqual(str(failure.value), "the connection cannot be upgraded")
        self.assertTrue(self.backend.aborted)

    def test_a_request_that_was_given_up_before_its_backend_is_there_ends_nothing(self) -> None:
        tunnel = TunnelBackend(self.http, b"", self.clock)  # type: ignore[arg-type]
        tunnel.decided.cancel()
        self.failureResultOf(tunnel.decided, CancelledError)
        self.assertFalse(self.backend.aborted)

    def test_the_ends_close_once_and_keep_no_timer_for_one_that_has_gone(self) -> None:
        """A client's end that is still open when its backend goes is closed when its last bytes are sent."""
        self.upgrade()
        self.http.channel.connectionLost(GONE)  # type: ignore[attr-defined]
        self.tunnel.connectionLost(GONE)
        self.assertFalse(self.client.disconnecting)
        self.setUp()
        self.upgrade()
        self.tunnel.connectionLost(GONE)
        self.http.channel.connectionLost(GONE)  # type: ignore[attr-defined]
        self.assertFalse(self.backend.disconnecting)
        self.clock.advance(CLOSE_TIMEOUT)
        self.assertEqual((self.client.aborted, self.backend.aborted), (False, False))

    def test_a_stopping_server_does_not_wait_for_a_tunnel(self) -> None:
        self.upgrade()
        taken: Any = self.http.channel
        self.assertTrue(taken.endless)
        taken.close_when_idle()
        self.assertFalse(self.client.disconnecting)


class Paused(SynchronousTestCase):
    """A tunnel whose one end takes no more while the other one may have gone, which a paused connection does not tell."""

    def setUp(self) -> None:
        self.clock, self.backend, self.client = Clock(), Read(), Read()
        self.http = Http(self.client)
        self.client.pauseProducing()
        self.gone: set[Transport] = set()
        self.patch(tunnels.departure, "has_left", lambda transport: transport in self.gone)
        self.tunnel = TunnelBackend(self.http, b"", self.clock, self.limit)  # type: ignore[arg-type]
        self.tunnel.makeConnection(self.backend)
        self.tunnel.dataReceived(UPGRADED)

    limit: Any = None

    def producers(self) -> tuple[tuple[Any, Read, Read], ...]:
        """Each direction: what its sink pauses, its source, and its sink."""
        return (self.backend.producer, self.client, self.backend), (self.client.producer, self.backend, self.client)

    def aborted(self) -> tuple[bool, bool]:
        return self.client.aborted, self.backend.aborted

    def test_one_that_has_gone_ends_both_when_its_bytes_are_not_taken_in_time(self) -> None:
        for number in (0, 1):
            self.setUp()
            producer, source, _ = self.producers()[number]
            producer.pauseProducing()
            self.assertEqual(source.producerState, "paused")
            self.clock.advance(LOOK_SECONDS)
            self.gone.add(source)
            self.clock.advance(LOOK_SECONDS)  # it is seen
            self.clock.advance(CLOSE_TIMEOUT - 1)
            self.assertEqual(self.aborted(), (False, False))
            self.clock.advance(1)
            self.assertEqual((self.aborted(), self.clock.getDelayedCalls()), ((True, True), []))

    def test_both_ends_are_read_from_then_on_and_pause_each_other(self) -> None:
        for producer, source, sink in self.producers():
            self.assertEqual((source.producerState, sink.streaming), ("producing", True))
            producer.pauseProducing()
            self.assertEqual(source.producerState, "paused")
            producer.resumeProducing()

    def test_one_that_takes_some_meanwhile_has_its_time_again(self) -> None:
        for number in (0, 1):
            self.setUp()
            producer, source, _ = self.producers()[number]
            self.gone.add(source)
            producer.pauseProducing()
            self.clock.advance(LOOK_SECONDS)
            producer.resumeProducing()
            self.assertEqual(source.producerState, "producing")
            producer.pauseProducing()
            self.clock.advance(CLOSE_TIMEOUT)
            self.assertEqual(self.aborted(), (False, False))
            self.clock.advance(CLOSE_TIMEOUT)
            self.assertEqual(self.aborted(), (True, True))

    def test_one_that_is_read_again_is_looked_at_no_more(self) -> None:
        producer, source, _ = self.producers()[0]
        self.gone.add(source)
        producer.pauseProducing()
        producer.resumeProducing()
        self.clock.advance(LOOK_SECONDS)
        self.assertEqual((self.aborted(), self.clock.getDelayedCalls()), ((False, False), []))

    def test_the_end_of_either_ends_the_look(self) -> None:
        for number in (0, 1):
            for end in ("stop", "client", "backend"):
                self.setUp()
                producer, source, _ = self.producers()[number]
                producer.pauseProducing()
                if end == "stop":
                    producer.stopProducing()
                    self.assertEqual(source.producerState, "stopped")
                    self.assertEqual(self.clock.getDelayedCalls(), [])
                    continue
                (self.http.channel if end == "client" else self.tunnel).connectionLost(GONE)  # type: ignore[attr-defined]
                [call] = self.clock.getDelayedCalls()  # the last bytes to the other end
                self.assertEqual(call.getTime(), CLOSE_TIMEOUT)

    def test_a_backend_that_cannot_take_what_was_sent_early_is_not_sent_more(self) -> None:
        backend, client = Read(), Read()
        backend.write = lambda data: data == b"sent early" and backend.producer.pauseProducing()  # type: ignore
        tunnel = TunnelBackend(Http(client), b"", self.clock)  # type: ignore[arg-type]
        tunnel.makeConnection(backend)
        tunnel.dataReceived(UPGRADED)
        self.assertEqual(client.producerState, "paused")


class Limited(Paused):
    """The same with a limit of bytes a second for each end."""

    def limit(self, transport: Any) -> Throttle:
        return Throttle(transport, 100, self.clock)

    def test_each_end_waits_for_its_own_limit(self) -> None:
        taken: Any = self.http.channel
        for received, source, other in (
            (taken.dataReceived, self.client, self.backend),
            (self.tunnel.dataReceived, self.backend, self.client),
        ):
            other.clear()
            received(b"x" * 200)
            self.assertEqual((source.producerState, other.producerState), ("paused", "producing"))
            self.assertEqual(other.value(), b"x" * 200)
            self.clock.advance(1.9)
            self.assertEqual(source.producerState, "paused")
            self.clock.advance(0.1)
            self.assertEqual(source.producerState, "producing")

    def test_when_one_end_has_gone_the_other_is_read_without_a_limit(self) -> None:
        for client_goes in (True, False):
            self.setUp()
            taken: Any = self.http.channel
            taken.dataReceived(b"x" * 200)
            self.tunnel.dataReceived(b"x" * 200)
            (taken if client_goes else self.tunnel).connectionLost(GONE)
            self.assertEqual((self.backend if client_goes else self.client).producerState, "producing")
            [call] = self.clock.getDelayedCalls()  # the last bytes
            self.assertEqual(call.getTime(), CLOSE_TIMEOUT)


@pytest.mark.parametrize("missing", ["channel", "transport", "owner", "unread"])
def test_only_a_connection_of_http_1_can_be_taken_over(missing: str) -> None:
    """Its channel has the bytes that are not read yet, and its transport says to whom bytes go."""
    owner = SimpleNamespace()
    transport = SimpleNamespace(wrappedProtocol=owner, unregisterProducer=lambda: None)
    channel = SimpleNamespace(transport=transport, unread=lambda: b"early")
    http: Any = SimpleNamespace(channel=channel)
    taken = TakenConnection(http)
    assert (owner.channel, owner.dataReceived) == (taken, taken.dataReceived)
    assert (taken.early(), taken.early()) == (b"early", b"")
    if missing == "channel":
        del http.channel
    elif missing == "transport":
        channel.transport = None
    elif missing == "owner":
        del transport.wrappedProtocol
    else:
        del channel.unread
    with pytest.raises(NotUpgradable):
        TakenConnection(http)


@pytest.mark.parametrize(
    ("headers", "upgrade", "websocket"),
    [
        ({"Connection": "Upgrade", "Upgrade": "websocket"}, True, True),
        ({"Connection": "keep-alive, upgrade", "Upgrade": "WebSocket"}, True, True),
        ({"Connection": ["keep-alive", "UPGRADE"], "Upgrade": "SPDY/3.1"}, True, False),
        ({"Connection": "keep-alive", "Upgrade": "websocket"}, False, False),
        ({"Upgrade": "websocket"}, False, False),
        ({"Connection": "Upgrade"}, False, False),
        ({"Connection": "Upgrade", "Upgrade": ""}, False, False),
        ({}, False, False),
    ],
)
def test_what_asks_for_an_upgrade(headers: Any, upgrade: bool, websocket: bool) -> None:
    ctx = request(headers=headers)
    assert (wants_upgrade(ctx), wants_websocket(ctx)) == (upgrade, websocket)
