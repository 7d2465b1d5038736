"""The call to a konnectivity server: packets, windows, and ends of connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.wire.http2 import frames
from kapi.wire.konnectivity import _Channel, by_call
from kapi.wire.plugin_messages import decode, encode, last_bytes, last_number, last_text
from kapi.wire.tunnel import ProxyError
from tests.wire.konnectivity_server import packet
from tests.wire.test_connect_tunnel import Proxy

NUMBER = 7  # the server's, of the connection
WINDOW = 256 * 1024


def data_frame(data: bytes, flags: int = 0) -> bytes:
    return frames.head(len(data), frames.DATA, flags, 1) + data


def message(content: bytes) -> bytes:
    """A message of gRPC in as many frames as it needs."""
    whole = b"\0" + len(content).to_bytes(4) + content
    return b"".join(data_frame(whole[at : at + 16_384]) for at in range(0, len(whole), 16_384))


def data_of(content: bytes, number: int = NUMBER) -> bytes:
    return message(packet(4, 4, (1, number), (3, content)))


SETTINGS = frames.settings({})
CLOSED = message(packet(3, 6, (2, NUMBER)))


class Inner(Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.lost: list[Failure] = []

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost.append(reason)


class Producer:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def pauseProducing(self) -> None:
        self.calls.append("pause")

    def resumeProducing(self) -> None:
        self.calls.append("resume")

    def stopProducing(self) -> None:
        self.calls.append("stop")


class KonnectivityTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.dial_to(SETTINGS)

    def dial_to(self, first: bytes) -> None:
        """Begins a call to a server whose ``first`` bytes are these."""
        self.clock = Clock()
        self.proxy: Any = Proxy()
        factory = Factory.forProtocol(Inner)
        self.made = Deferred.fromCoroutine(by_call(self.clock, self.proxy, "10.0.0.1:10250", factory, None))  # type: ignore[arg-type]
        self.transport: StringTransport = self.proxy.transport
        self.greeting = self.sent()
        self.dial = self.packets()[0]
        self.feed(first)

    def sent(self) -> list[tuple[int, int, int, bytes]]:
        """(type, flags, stream, payload) of all frames."""
        data, found = self.transport.value(), []
        self.assertTrue(data.startswith(frames.PREFACE))
        at = len(frames.PREFACE)
        while at < len(data):
            high, low, kind, flags, number = frames.unpack_head(data, at)
            begin = at + frames.HEAD_SIZE
            at = begin + (high << 8 | low)
            found.append((kind, flags, number, data[begin:at]))
        return found

    def packets(self) -> list[tuple[int, Any]]:
        """(type, fields of the content) of all packets in whole messages."""
        data = b"".join(payload for kind, _, _, payload in self.sent() if kind == frames.DATA)
        found: list[tuple[int, Any]] = []
        while len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5]):
            end = 5 + int.from_bytes(data[1:5])
            fields = decode(data[5:end])
            kind = last_number(fields, 1)
            (content,) = (number for number in fields if number != 1)
            found.append((kind, decode(last_bytes(fields, content))))
            data = data[end:]
        return found

    def feed(self, data: bytes) -> None:
        self.proxy.protocol.dataReceived(data)

    def connect(self) -> Inner:
        answer = packet(1, 3, (2, NUMBER), (3, last_number(self.dial[1], 3)))
        headers = frames.head(1, frames.HEADERS, frames.END_HEADERS, 1) + b"\x88"
        self.feed(headers + message(answer))
        inner: Inner = self.successResultOf(self.made)
        return inner

    def updates(self) -> list[tuple[int, int]]:
        """(stream, bytes) of all WINDOW_UPDATE frames after the greeting."""
        return [
            (number, int.from_bytes(payload))
            for kind, _, number, payload in self.sent()[len(self.greeting) :]
            if kind == frames.WINDOW_UPDATE
        ]

    def test_it_dials(self) -> None:
        kinds = [kind for kind, _, _, _ in self.greeting]
        self.assertEqual(kinds, [frames.SETTINGS, frames.WINDOW_UPDATE, frames.HEADERS, frames.DATA])
        kind, content = self.dial
        self.assertEqual((kind, last_text(content, 1), last_text(content, 2)), (0, "tcp", "10.0.0.1:10250"))
        self.assertNoResult(self.made)
        inner = self.connect()
        self.assertIn((frames.SETTINGS, frames.ACK, 0, b""), self.sent())
        self.feed(data_of(b"ab") + data_of(b"other", number=8))
        whole = data_of(b"cd")
        for at in range(len(whole)):
            self.feed(whole[at : at + 1])
        self.assertEqual(inner.received, b"abcd")

    def test_a_dial_that_fails_says_why(self) -> None:
        number = last_number(self.dial[1], 3)
        self.feed(message(packet(1, 3, (1, b"dial tcp 10.0.0.1:10250: connect: connection refused"), (3, number))))
        error = self.failureResultOf(self.made, ProxyError).value
        self.assertEqual(str(error), "dial tcp 10.0.0.1:10250: connect: connection refused")
        self.assertTrue(self.transport.disconnected)

    def test_a_call_that_ends_is_no_connection(self) -> None:
        ends = (
            data_frame(b"", frames.END_STREAM),
            frames.head(1, frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1) + b"\x88",
            frames.reset(1, frames.Code.REFUSED_STREAM),
            frames.goaway(0, frames.Code.NO_ERROR),
        )
        for end in ends:
            self.setUp()
            self.feed(end)
            self.assertEqual(str(self.failureResultOf(self.made, ProxyError).value), "tunnel closed")
        for text in (
            message(packet(5, 7, (1, 1))),
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            data_frame(b"\1\0\0\0\0"),
            data_frame(b"\0\xff\0\0\0"),
        ):
            self.setUp()
            self.feed(text)
            self.assertRegex(
                str(self.failureResultOf(self.made, ProxyError).value), "dial closed|konnectivity server: "
            )
        self.setUp()
        self.proxy.protocol.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(str(self.failureResultOf(self.made, ProxyError).value), "tunnel closed")

    def test_a_server_that_breaks_the_protocol_loses_the_connection(self) -> None:
        most = frames.MAX_WINDOW_BYTES
        for text, broken in (
            ("the first frame is not SETTINGS", frames.pong(bytes(8))),
            ("HEADERS of no stream", SETTINGS + frames.header_block(3, b"\x88", 0, frames.DEFAULT_FRAME)),
            ("DATA of no stream", SETTINGS + frames.head(1, frames.DATA, 0, 3) + b"x"),
            ("CONTINUATION of nothing", SETTINGS + frames.head(1, frames.CONTINUATION, 0, 1) + b"\x88"),
            ("ends within a field", SETTINGS + frames.header_block(1, b"\xff\xff\x01", 0, frames.DEFAULT_FRAME)),
            ("PING of another length", SETTINGS + frames.head(7, frames.PING, 0, 0) + bytes(7)),
            ("SETTINGS of another length", frames.head(1, frames.SETTINGS, 0, 0) + b"x"),
            ("a window is too large", SETTINGS + frames.window_update(0, most)),
            ("a window is too large", SETTINGS + frames.window_update(1, most)),
            ("WINDOW_UPDATE by nothing", SETTINGS + frames.window_update(1, 0)),
            ("too many frames like PING", SETTINGS + 2000 * (frames.head(8, frames.PING, 0, 0) + bytes(8))),
        ):
            with self.subTest(text):
                self.dial_to(broken)
                self.assertRegex(
                    str(self.failureResultOf(self.made, ProxyError).value), f"konnectivity server: .*{text}"
                )
                self.assertTrue(self.transport.disconnected)

    def test_a_server_may_measure_each_round_trip(self) -> None:
        """With a PING for each frame of data, and the windows opened before it, as gRPC's library for Go does."""
        inner = self.connect()
        ping = frames.head(8, frames.PING, 0, 0) + bytes(8)
        for _ in range(3000):
            inner.transport.write(b"x")  # type: ignore[union-attr]
            self.feed(frames.window_update(0, 20) + frames.window_update(1, 20) + ping)
        self.assertEqual((inner.lost, self.transport.disconnected), ([], False))

    def test_the_first_end_is_the_one_that_counts(self) -> None:
        inner = self.connect()
        inner.transport.pauseProducing()  # type: ignore[union-attr]
        self.feed(data_of(b"last") + CLOSED + frames.reset(1, frames.Code.CANCEL) + frames.window_update(1, 0))
        inner.transport.resumeProducing()  # type: ignore[union-attr]
        self.assertEqual((inner.received, [each.type for each in inner.lost]), (b"last", [ConnectionDone]))

    def test_the_answer_to_another_dial_is_none(self) -> None:
        self.feed(message(packet(1, 3, (2, NUMBER), (3, last_number(self.dial[1], 3) ^ 1))))
        self.assertNoResult(self.made)

    def test_pings_are_answered(self) -> None:
        self.feed(frames.head(8, frames.PING, 0, 0) + b"12345678")
        self.feed(frames.pong(b"abcdefgh"))
        pongs = [payload for kind, flags, _, payload in self.sent() if (kind, flags) == (frames.PING, frames.ACK)]
        self.assertEqual(pongs, [b"12345678"])

    def test_no_more_is_sent_than_the_windows_allow(self) -> None:
        inner, producer = self.connect(), Producer()
        inner.transport.registerProducer(producer, True)  # type: ignore[union-attr, arg-type]
        inner.transport.write(b"x" * 300_000)  # type: ignore[union-attr]

        def size() -> int:
            return sum(len(payload) for kind, _, _, payload in self.sent() if kind == frames.DATA)

        self.assertEqual(size(), 65_535)
        self.assertEqual(producer.calls, ["pause"])
        self.feed(frames.window_update(1, 100_000))
        self.assertEqual(size(), 65_535)
        self.feed(frames.window_update(0, 100_000))
        self.assertEqual(size(), 165_535)
        self.feed(frames.settings({frames.INITIAL_WINDOW_SIZE: 65_535 + 200_000}) + frames.window_update(0, 200_000))
        self.assertEqual(producer.calls, ["pause", "resume"])
        self.assertTrue(all(len(payload) <= 16_384 for _, _, _, payload in self.sent()))
        sent = [content for kind, content in self.packets() if kind == 4]
        self.assertEqual(b"".join(last_bytes(content, 3) for content in sent), b"x" * 300_000)
        self.assertEqual({last_number(content, 1) for content in sent}, {NUMBER})

    def test_no_more_is_sent_than_the_server_reads(self) -> None:
        inner, producer = self.connect(), Producer()
        transport: Any = inner.transport
        self.feed(frames.settings({frames.INITIAL_WINDOW_SIZE: frames.MAX_WINDOW_BYTES}))
        self.feed(frames.window_update(0, frames.MAX_WINDOW_BYTES - frames.DEFAULT_WINDOW))
        transport.registerProducer(producer, True)
        self.transport.producer.pauseProducing()
        size = len(self.transport.value())
        transport.write(b"x" * 300_000)
        self.assertEqual((len(self.transport.value()), producer.calls), (size, ["pause"]))
        self.transport.producer.resumeProducing()
        self.assertEqual(producer.calls, ["pause", "resume"])
        sent = [last_bytes(content, 3) for kind, content in self.packets() if kind == 4]
        self.assertEqual(b"".join(sent), b"x" * 300_000)

    def test_answers_to_a_server_that_reads_nothing_are_bounded(self) -> None:
        ping = frames.head(8, frames.PING, 0, 0) + bytes(8)
        for frame in (ping, SETTINGS):
            self.setUp()
            inner = self.connect()
            self.transport.producer.pauseProducing()
            for _ in range(10):  # slowly, which is no flood
                self.feed(frame * 500)
                self.clock.advance(60)
            self.assertTrue(self.transport.disconnected)
            self.assertLess(len(self.transport.value()), 20_000)
            self.assertIn("are not taken", str(inner.lost[0].value))

    def test_the_server_waits_for_who_does_not_read(self) -> None:
        inner = self.connect()
        inner.transport.pauseProducing()  # type: ignore[union-attr]
        self.feed(data_of(b"x" * 200_000))
        self.assertEqual((inner.received, self.updates()), (b"", []))
        inner.transport.resumeProducing()  # type: ignore[union-attr]
        self.assertEqual(inner.received, b"x" * 200_000)
        ((number, more),) = self.updates()
        self.assertEqual(number, 1)
        self.assertGreater(more, 200_000)
        self.feed(data_of(b"y" * 200_000) + data_of(b"z" * 200_000))
        self.assertEqual(len(inner.received), 600_000)
        self.assertEqual({number for number, _ in self.updates()}, {0, 1})

    def test_a_server_that_does_not_wait_loses_the_connection(self) -> None:
        inner = self.connect()
        inner.transport.pauseProducing()  # type: ignore[union-attr]
        self.feed(data_of(b"x" * WINDOW))
        self.assertTrue(self.transport.disconnected)
        inner.transport.resumeProducing()  # type: ignore[union-attr]
        (reason,) = inner.lost
        self.assertIn("more than the stream's window", str(reason.value))

    def test_a_packet_of_many_fields_ends_the_connection(self) -> None:
        """Four megabytes of them would be decoded for seconds."""
        for packet_of_many in (b"\x08\x04" * 20_000, packet(4, 4, (3, b"x")) + encode([(4, b"\x08\x07" * 20_000)])):
            self.setUp()
            inner = self.connect()
            self.feed(message(packet_of_many))
            self.assertRegex(str(inner.lost[0].value), "konnectivity server: more than .* fields")

    def test_an_inner_protocol_is_called_again_after_it_has_returned(self) -> None:
        """Also when it pauses and resumes within the call."""
        inner, running = self.connect(), []
        transport: Any = inner.transport

        def take(data: bytes) -> None:
            running.append(data)
            self.assertEqual(len(running), 1)
            transport.pauseProducing()
            transport.resumeProducing()
            running.pop()
            inner.received += data

        transport.pauseProducing()
        self.feed(data_of(b"a") + data_of(b"b") + data_of(b"c"))
        inner.dataReceived = take  # type: ignore[method-assign]
        transport.resumeProducing()
        self.assertEqual(inner.received, b"abc")

    def test_data_comes_before_the_end(self) -> None:
        inner = self.connect()
        inner.transport.pauseProducing()  # type: ignore[union-attr]
        self.feed(data_of(b"last") + CLOSED)
        self.assertEqual((inner.received, inner.lost), (b"", []))
        inner.transport.resumeProducing()  # type: ignore[union-attr]
        self.assertEqual((inner.received, [each.type for each in inner.lost]), (b"last", [ConnectionDone]))
        self.proxy.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(len(inner.lost), 1)

    def test_a_close_comes_after_the_data_and_is_answered(self) -> None:
        inner = self.connect()
        inner.transport.write(b"x" * 70_000)  # type: ignore[union-attr]
        inner.transport.loseConnection()  # type: ignore[union-attr]
        inner.transport.write(b"too late")  # type: ignore[union-attr]
        self.assertNotIn(2, [kind for kind, _ in self.packets()])
        self.feed(frames.window_update(0, 70_000) + frames.window_update(1, 70_000))
        self.assertEqual(self.packets()[-1], (2, decode(encode([(1, NUMBER)]))))
        self.assertFalse(self.transport.disconnected)
        self.feed(data_of(b"late") + CLOSED)
        self.assertTrue(self.transport.disconnected)
        self.assertEqual((inner.received, [each.type for each in inner.lost]), (b"", [ConnectionDone]))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_close_waits_for_the_producer(self) -> None:
        inner, producer = self.connect(), Producer()
        inner.transport.registerProducer(producer, True)  # type: ignore[union-attr, arg-type]
        inner.transport.loseConnection()  # type: ignore[union-attr]
        inner.transport.write(b"the rest")  # type: ignore[union-attr]
        self.assertEqual([kind for kind, _ in self.packets()], [0, 4])
        inner.transport.unregisterProducer()  # type: ignore[union-attr]
        self.assertEqual([kind for kind, _ in self.packets()], [0, 4, 2])

    def test_a_producer_that_leaves_at_the_end_closes_nothing(self) -> None:
        inner, producer = self.connect(), Producer()
        transport: Any = inner.transport
        producer.stopProducing = transport.unregisterProducer  # type: ignore[method-assign]
        transport.registerProducer(producer, True)
        self.feed(CLOSED)
        self.assertEqual(([kind for kind, _ in self.packets()], self.clock.getDelayedCalls()), ([0], []))

    def test_a_close_that_is_not_answered_ends_after_ten_seconds(self) -> None:
        inner = self.connect()
        inner.transport.loseConnection()  # type: ignore[union-attr]
        self.clock.advance(9.9)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(0.2)
        self.assertTrue(self.transport.disconnected)

    def test_who_aborts_hears_that_it_is_over(self) -> None:
        inner, producer = self.connect(), Producer()
        inner.transport.registerProducer(producer, True)  # type: ignore[union-attr, arg-type]
        inner.transport.pauseProducing()  # type: ignore[union-attr]
        self.feed(data_of(b"unread"))
        inner.transport.abortConnection()  # type: ignore[union-attr]
        self.assertTrue(self.transport.disconnected)
        self.proxy.protocol.connectionLost(Failure(ConnectionLost()))
        self.assertEqual((inner.received, len(inner.lost), producer.calls), (b"", 1, ["stop"]))

    def test_a_server_that_vanishes_is_no_end_of_the_data(self) -> None:
        inner = self.connect()
        self.proxy.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual([each.type for each in inner.lost], [ConnectionLost])


_content = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [packet(4, 4, (1, NUMBER), (3, b"data")), packet(3, 6, (2, NUMBER)), packet(5, 7, (1, 1)), packet(4, 4)]
    ),
)
_frames = st.one_of(
    _content.map(message),
    st.builds(
        lambda payload, kind, flags, number: frames.head(len(payload), kind, flags, number) + payload,
        st.one_of(st.binary(max_size=12), st.sampled_from([bytes(4), bytes(8)])),
        st.integers(0, 11), st.integers(0, 0x2F), st.sampled_from([0, 1, 1, 3]),
    ),
)  # fmt: skip


class InnerThatPauses(Inner):
    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        if len(self.received) % 3 == 1:
            self.transport.pauseProducing()  # type: ignore[union-attr]


@settings(max_examples=300, deadline=None)
@given(st.booleans(), st.lists(_frames, max_size=10), st.binary(max_size=20), st.integers(1, 50), st.booleans())
def test_whatever_a_server_sends_the_connection_ends_once_and_nothing_is_raised(
    connects: bool, sent: list[bytes], rest: bytes, size: int, closes: bool
) -> None:
    test = KonnectivityTests()
    test.setUp()
    made: list[Any] = []
    inners: list[InnerThatPauses] = []

    def build(_: object) -> InnerThatPauses:
        inners.append(InnerThatPauses())
        return inners[-1]

    factory: Any = Factory()
    factory.buildProtocol = build
    test.proxy = Proxy()
    Deferred.fromCoroutine(by_call(test.clock, test.proxy, "10.0.0.1:1", factory, None)).addBoth(made.append)  # type: ignore[arg-type]
    test.transport = test.proxy.transport
    if connects:
        test.feed(message(packet(1, 3, (2, NUMBER), (3, last_number(test.packets()[0][1], 3)))))
    data = b"".join(sent) + rest
    for at in range(0, len(data), size):
        test.feed(data[at : at + size])
    for inner in inners:
        assert inner.transport is not None
        inner.transport.write(b"answer")
        if closes:
            inner.transport.loseConnection()
        inner.transport.resumeProducing()  # type: ignore[attr-defined]
    test.clock.advance(11)
    test.proxy.protocol.connectionLost(Failure(ConnectionDone()))
    for inner in inners * len(sent):  # it may pause once more for each
        inner.transport.resumeProducing()  # type: ignore[union-attr]
    assert len(made) == 1
    assert [len(inner.lost) for inner in inners] == [1] * len(inners)
    assert len(inners) == (not isinstance(made[0], Failure))
    assert test.clock.getDelayedCalls() == []


@pytest.mark.parametrize(("waiting", "paused"), [(128 * 1024, False), (128 * 1024 + 1, True)])
def test_a_producer_waits_while_much_is_not_sent(waiting: int, paused: bool) -> None:
    calls: list[str] = []
    producer: Any = SimpleNamespace(
        pauseProducing=lambda: calls.append("pause"), resumeProducing=lambda: calls.append("resume")
    )
    channel = _Channel(Mock())
    channel.sent(waiting)
    channel.registerProducer(producer, True)
    for _ in range(2):
        channel.sent(waiting)
    assert calls == ["pause"] * paused
    channel.sent(1)
    assert calls == ["pause"] * paused
    for _ in range(2):
        channel.sent(0)
    assert calls == ["pause", "resume"] * paused
