"""One connection of HTTP/2: whatever a server sends, its health, and bounds of what waits."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from kapi.request.streamed_body import StreamedBody
from kapi.wire.answer import BadAnswer
from kapi.wire.connection import STALL_SECONDS, Stalled
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.client import MAX_IDLE_SECONDS, PING_SECONDS, QUIET_SECONDS, Http2Client, health_seconds
from kapi.wire.http2.frames import Code
from kapi.wire.http2.pool import offered_protocols
from kapi.wire.http2.receiving import WINDOW
from tests.wire.http2_peer import Arriving, Transport, block, data, headers
from tests.wire.http2_server import frames_in


class Owner:
    def __init__(self) -> None:
        self.gone: list[object] = []

    def allows(self, streams: int) -> None:
        pass

    def rests(self, connection: object) -> None:
        pass

    def leaving(self, connection: object) -> None:
        self.gone.append(connection)

    def ended(self, connection: object) -> None:
        pass


_payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([block(), block(status="100"), block(("content-length", "3")), b"abc", bytes(4), bytes(8)]),
)
_frames = st.tuples(_payloads, st.integers(0, 11), st.integers(0, 0x2F), st.sampled_from([0, 1, 1, 1, 3, 5, 2, 7]))


@settings(max_examples=300, deadline=None)
@given(st.lists(_frames, max_size=12), st.binary(max_size=20), st.integers(1, 50), st.booleans())
def test_whatever_a_server_sends_each_request_ends_and_nothing_is_raised(
    frames: list[tuple[bytes, int, int, int]], rest: bytes, size: int, read: bool
) -> None:
    connection, transport = Http2Client(Owner(), Clock()), Transport()
    connection.makeConnection(transport)  # type: ignore[no-untyped-call]
    ends: list[object] = []

    def ended(answer: Any) -> None:
        if isinstance(answer, Failure):
            ends.append(answer.value)
        elif read:
            answer.read(len, ends.append)
        else:
            answer.abort()
            ends.append(None)

    for method in (b"GET", b"POST", b"HEAD"):
        answered: Deferred[Any] = Deferred()
        head = method + b" / HTTP/1.1\r\nHost: x\r\n"
        connection.ask(head, b"x" * 70_000 if method == b"POST" else None, answered, method == b"HEAD")
        answered.addBoth(ended)
    sent = wire.settings({}) + b"".join(
        wire.head(len(payload), kind, flags, stream) + payload for payload, kind, flags, stream in frames
    )
    sent += rest
    for at in range(0, len(sent), size):
        connection.dataReceived(sent[at : at + size])
    connection.connectionLost(Failure(ConnectionDone()))
    assert len(ends) == 3
    assert not connection.streams


class Health(TestCase):
    def environment(self, **values: str) -> None:
        """Environment variables for new connections."""
        self.patch(os, "environ", values)
        for read in (health_seconds, offered_protocols):
            read.cache_clear()
            self.addCleanup(read.cache_clear)
        self.setUp()

    def setUp(self) -> None:
        self.clock, self.owner, self.transport = Clock(), Owner(), Transport()
        self.connection = Http2Client(self.owner, self.clock)
        self.connection.makeConnection(self.transport)  # type: ignore[no-untyped-call]
        self.connection.dataReceived(wire.settings({}))
        self.answered: Deferred[Any] = Deferred()

    def ask(self) -> None:
        self.connection.ask(b"GET / HTTP/1.1\r\nHost: x\r\n", None, self.answered, False)

    def sent(self) -> list[tuple[int, int, int, bytes]]:
        return frames_in(self.transport.value())

    def pings(self) -> int:
        return len([1 for kind, flags, _, _ in self.sent() if kind == wire.PING and not flags])

    def test_a_server_that_says_nothing_is_asked_whether_it_is_there(self) -> None:
        self.ask()
        self.clock.advance(QUIET_SECONDS - 1)
        self.assertEqual(self.pings(), 0)
        self.clock.advance(1)
        self.assertEqual(self.pings(), 1)
        self.clock.advance(PING_SECONDS - 1)
        self.assertFalse(self.transport.aborted)
        self.clock.advance(1)
        self.assertTrue(self.transport.aborted)
        self.assertEqual(self.owner.gone, [self.connection])
        self.assertEqual(
            self.failureResultOf(self.answered, BadAnswer).getErrorMessage(), "http2: client connection lost"
        )

    def test_a_server_that_answers_is_waited_for(self) -> None:
        self.ask()
        for _ in range(5):
            self.clock.advance(QUIET_SECONDS)
            self.connection.dataReceived(wire.pong(bytes(8)))
            self.clock.advance(PING_SECONDS)
        self.assertFalse(self.transport.aborted)
        self.assertNoResult(self.answered)

    def test_the_environment_says_when_a_silent_server_is_asked(self) -> None:
        self.environment(HTTP2_READ_IDLE_TIMEOUT_SECONDS="7", HTTP2_PING_TIMEOUT_SECONDS="+3")
        self.ask()
        self.clock.advance(7)
        self.assertEqual(self.pings(), 1)
        self.clock.advance(2)
        self.assertFalse(self.transport.aborted)
        self.clock.advance(1)
        self.assertTrue(self.transport.aborted)

    def test_the_environment_may_say_that_no_server_is_asked(self) -> None:
        self.environment(HTTP2_READ_IDLE_TIMEOUT_SECONDS="0")
        self.ask()
        self.clock.pump([MAX_IDLE_SECONDS] * 10)
        self.assertEqual(self.pings(), 0)
        self.assertNoResult(self.answered)
        self.connection.dataReceived(headers(ends=True))
        self.clock.pump([MAX_IDLE_SECONDS] * 2)
        self.assertTrue(self.transport.disconnecting)

    def test_what_the_environment_says_wrongly_is_logged_and_not_used(self) -> None:
        self.environment(HTTP2_READ_IDLE_TIMEOUT_SECONDS="30s", HTTP2_PING_TIMEOUT_SECONDS="9" * 20)
        lines: list[LogEvent] = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)
        health_seconds.cache_clear()
        self.assertEqual(health_seconds(), (QUIET_SECONDS, PING_SECONDS))
        self.assertEqual(
            [formatEvent(line) for line in lines if line.get("log_namespace") == "kapi.wire.http2.client"],
            [
                'Illegal HTTP2_READ_IDLE_TIMEOUT_SECONDS("30s"): strconv.Atoi: parsing "30s": invalid syntax.'
                " Default value 30 is used",
                f'Illegal HTTP2_PING_TIMEOUT_SECONDS("{"9" * 20}"): strconv.Atoi: parsing "{"9" * 20}": value out of range.'
                " Default value 15 is used",
            ],
        )

    def test_the_environment_may_forbid_http2(self) -> None:
        self.environment(DISABLE_HTTP2="false")  # whatever it is
        self.assertEqual(offered_protocols(), ())
        self.environment(DISABLE_HTTP2="")
        self.assertEqual(offered_protocols(), (b"h2", b"http/1.1"))

    def test_an_idle_connection_ends(self) -> None:
        waited = 0.0
        while not self.transport.disconnecting:
            self.assertLess(waited, MAX_IDLE_SECONDS + QUIET_SECONDS + PING_SECONDS)
            self.clock.advance(PING_SECONDS)
            waited += PING_SECONDS
            self.connection.dataReceived(wire.pong(bytes(8)))
        self.assertGreaterEqual(waited, MAX_IDLE_SECONDS)
        self.assertFalse(self.connection.takes())
        self.clock.advance(QUIET_SECONDS)
        self.assertTrue(self.transport.aborted)  # its server did not close it

    def test_bodies_wait_for_a_server_that_reads_nothing(self) -> None:
        self.connection.dataReceived(wire.settings({wire.INITIAL_WINDOW_SIZE: 1_000_000}))
        self.connection.dataReceived(wire.window_update(0, 1_000_000))
        self.connection.pauseProducing()
        before = len(self.transport.value())
        given_up = [
            self.connection.ask(b"POST / HTTP/1.1\r\nHost: x\r\n", bytes(100_000), Deferred(), False) for _ in range(50)
        ]
        self.assertLess(len(self.transport.value()) - before, 5000)
        for exchange in given_up[1:]:
            exchange.abort()
        self.connection.resumeProducing()
        sent = [len(payload) for kind, _, _, payload in self.sent() if kind == wire.DATA]
        self.assertEqual(sum(sent), 100_000)

    def test_the_window_opens_when_its_reader_has_taken_half_of_it_and_goes_on(self) -> None:
        exchange = self.connection.ask(b"GET / HTTP/1.1\r\nHost: x\r\n", None, self.answered, False)

        def opened_after(received: bytes) -> list[bytes]:
            self.transport.clear()
            exchange.pauseProducing()
            self.connection.dataReceived(received)
            before = self.transport.value()
            exchange.resumeProducing()
            sent = wire.PREFACE + self.transport.value()[len(before) :]
            return [payload for kind, _, stream, payload in frames_in(sent) if kind == wire.WINDOW_UPDATE and stream]

        self.assertEqual(opened_after(headers() + data(b"few")), [])
        frames = WINDOW // 2 // wire.DEFAULT_FRAME + 1
        more = 3 + frames * wire.DEFAULT_FRAME
        self.assertEqual(opened_after(data(bytes(wire.DEFAULT_FRAME)) * frames), [more.to_bytes(4)])
        self.assertEqual(opened_after(data(bytes(wire.DEFAULT_FRAME)) * frames + data(b"", ends=True)), [])

    def test_a_body_that_is_not_taken_fails_after_a_while(self) -> None:
        body = StreamedBody(Arriving(), None, bytes(100_000))
        self.connection.ask(b"POST / HTTP/1.1\r\nHost: x\r\n", body, self.answered, False)
        alive = wire.pong(bytes(8))
        for _ in range(int(STALL_SECONDS // 20)):
            self.connection.dataReceived(alive)
            self.clock.advance(20)
        self.assertNoResult(self.answered)
        self.connection.dataReceived(alive)
        self.clock.advance(20)
        self.failureResultOf(self.answered, Stalled)
        resets = [payload for kind, _, _, payload in self.sent() if kind == wire.RST_STREAM]
        self.assertEqual(resets, [int(Code.CANCEL).to_bytes(4)])
        self.assertFalse(self.transport.aborted)

    def test_answers_to_a_server_that_reads_nothing_are_bounded(self) -> None:
        self.ask()
        self.connection.pauseProducing()
        for _ in range(100):
            self.clock.advance(9)
            self.connection.dataReceived((wire.head(8, wire.PING, 0, 0) + bytes(8)) * 200)
        self.assertTrue(self.transport.aborted)
        self.assertLess(len(self.transport.value()), 20_000)
        self.failureResultOf(self.answered, BadAnswer)
