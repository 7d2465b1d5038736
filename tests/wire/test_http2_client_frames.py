"""The frames that an HTTP/2 client sends, and what it makes of those of a server: windows, ends, errors, time."""

from __future__ import annotations

from typing import Any

import hpack
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kapi.request.streamed_body import StreamedBody
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.client import Exchange, Http2Client
from kapi.wire.http2.frames import Code
from kapi.wire.http2.receiving import WINDOW
from tests.wire.http2_peer import Arriving, Transport, data, headers
from tests.wire.http2_server import frames_in

GET, POST = b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n"


class Connection:
    """A client's connection; what it tells its owner, and what it sends."""

    def __init__(self, settings: dict[int, int] | None = None) -> None:
        self.clock, self.transport, self.told = Clock(), Transport(), list[Any]()
        self.client = Http2Client(self, self.clock)
        self.client.makeConnection(self.transport)  # type: ignore[no-untyped-call]
        self.begin = self.transport.value()
        self.transport.clear()
        self.client.dataReceived(wire.settings(settings or {}))
        self.sent()

    def allows(self, streams: int) -> None:
        self.told.append(streams)

    def rests(self, connection: Http2Client) -> None:
        self.told.append("rests")

    def leaving(self, connection: Http2Client) -> None:
        self.told.append("leaving")

    def ended(self, connection: Http2Client) -> None:
        self.told.append("ended")

    def ask(
        self, head: bytes = GET, body: bytes | StreamedBody | None = None, bodiless: bool = False
    ) -> tuple[Exchange, Any]:
        answered: Deferred[Any] = Deferred()
        exchange = self.client.ask(head, body, answered, bodiless)
        return exchange, answered

    def sent(self) -> list[tuple[int, int, int, bytes]]:
        found = frames_in(wire.PREFACE + self.transport.value())
        self.transport.clear()
        return found

    def sizes(self) -> list[tuple[int, int, int]]:
        """(stream, bytes, END_STREAM) of the frames of bodies."""
        return [(stream, len(payload), flags) for kind, flags, stream, payload in self.sent() if kind == wire.DATA]

    def receives(self, *frames: bytes) -> None:
        self.client.dataReceived(b"".join(frames))


def error(answered: Any) -> str:
    problems: list[Failure] = []
    answered.addErrback(problems.append)
    (problem,) = problems
    return f"{problem.type.__name__}: {problem.getErrorMessage()}"


def outcome(exchange: Exchange) -> str:
    """What the reader of its answer gets."""
    parts: list[bytes] = []
    ends: list[Any] = []
    assert exchange.answer is not None
    exchange.answer.read(parts.append, ends.append)
    return f"{b''.join(parts)!r} {[end and end.getErrorMessage() for end in ends]}"


def test_it_begins_with_its_settings_and_window() -> None:
    settings = wire.settings({2: 0, 4: 262_144, 6: 262_144})
    assert Connection().begin.startswith(wire.PREFACE + settings[:21])
    assert Connection().begin.endswith(wire.window_update(0, 1_048_576 - 65_535))


def test_a_request_is_one_block_of_fields() -> None:
    connection = Connection()
    connection.ask(b"GET /a HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nConnection: close\r\nx-b: " + b"v" * 501 + b"\r\n")
    connection.ask(POST, b"")
    connection.ask(POST, b"abc")
    first, second, third, body = connection.sent()
    assert [frame[:3] for frame in (first, second, third, body)] == [
        (wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, 1), (wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, 3),
        (wire.HEADERS, wire.END_HEADERS, 5), (wire.DATA, wire.END_STREAM, 5),
    ]  # fmt: skip
    decoder = hpack.Decoder()
    pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/a")]
    assert decoder.decode(first[3]) == [*pseudo, ("x-a", "1"), ("x-b", "v" * 501)]
    assert decoder.decode(second[3])[4:] == [("content-length", "0")]
    assert decoder.decode(third[3])[4:] == [("content-length", "3")]
    assert (first[3][0], second[3][0] & 0xE0 == 0x20) == (
        0x20,
        False,
    )  # only the first block says that there is no table


@pytest.mark.parametrize(
    ("head", "body", "size"),
    [
        # 32 bytes and the texts of :method GET, :scheme https, :authority x, :path /
        (GET, None, 4 * 32 + 7 + 3 + 7 + 5 + 10 + 1 + 5 + 1),
        (GET + b"a: b\r\n", None, 4 * 32 + 39 + 32 + 2), (POST, b"x" * 10, 4 * 32 + 40 + 32 + 14 + 2),
        (POST, b"", 4 * 32 + 40 + 32 + 14 + 1),
    ],
)  # fmt: skip
def test_a_head_may_have_as_many_bytes_as_the_server_takes(head: bytes, body: bytes | None, size: int) -> None:
    connection = Connection({wire.MAX_HEADER_LIST_SIZE: size})
    connection.ask(head, body)
    assert connection.sent() and len(connection.client.streams) == 1
    connection = Connection({wire.MAX_HEADER_LIST_SIZE: size - 1})
    _, answered = connection.ask(head, body)
    assert error(answered) == "BadHead: http2: request header list larger than peer's advertised limit"
    assert (connection.sent(), connection.client.highest) == ([], 0)


def test_a_body_is_sent_in_frames_as_the_windows_allow() -> None:
    connection = Connection({wire.INITIAL_WINDOW_SIZE: 20_000})
    connection.ask(POST, bytes(20_001))
    assert connection.sizes() == [(1, 16_384, 0), (1, 3_616, 0)]
    connection.receives(wire.window_update(1, 1))
    assert connection.sizes() == [(1, 1, 1)]
    for size in (16_384, 16_385):
        connection.ask(POST, bytes(size))
    assert connection.sizes() == [(3, 16_384, 1), (5, 16_384, 0), (5, 1, 1)]
    assert connection.client.window == 65_535 - 20_001 - 16_384 - 16_385
    connection = Connection()
    connection.ask(POST, bytes(65_535))
    connection.ask(POST, b"abc")
    assert sum(size for _, size, _ in connection.sizes()) == 65_535
    connection.receives(wire.window_update(0, 2))
    assert connection.sizes() == [(3, 2, 0)]
    connection.receives(wire.window_update(0, 2))
    assert (connection.sizes(), connection.client.window) == ([(3, 1, 1)], 1)


def test_streams_take_turns_when_a_window_opens() -> None:
    connection = Connection()
    connection.ask(POST, bytes(65_535))
    for _ in range(3):
        connection.ask(POST, bytes(100_000))
    connection.sizes()
    served = []
    for _ in range(4):
        connection.receives(wire.window_update(0, 10))
        served += connection.sizes()
    assert served == [(3, 10, 0), (5, 10, 0), (7, 10, 0), (3, 10, 0)]


def test_other_windows_for_streams_that_are_open_and_to_come() -> None:
    connection = Connection()
    exchange, _ = connection.ask(POST, bytes(100))
    connection.receives(wire.settings({wire.INITIAL_WINDOW_SIZE: 0}))
    assert exchange.window == -100
    waiting, _ = connection.ask(POST, bytes(50))
    assert connection.sizes() == [(1, 100, 1)]
    connection.receives(wire.settings({wire.INITIAL_WINDOW_SIZE: 20}))
    assert (connection.sizes(), exchange.window, waiting.window) == ([(3, 20, 0)], -80, 0)
    connection.receives(wire.window_update(1, 80), wire.window_update(1, (1 << 31) - 1))
    assert exchange.window == (1 << 31) - 1
    connection.receives(wire.settings({wire.INITIAL_WINDOW_SIZE: 21}))
    assert connection.transport.aborted


def test_while_the_server_does_not_read_no_body_is_sent() -> None:
    connection = Connection()
    connection.client.pauseProducing()
    connection.ask(POST, bytes(10))
    assert [frame[0] for frame in connection.sent()] == [wire.HEADERS]
    connection.receives(wire.window_update(0, 10), wire.window_update(1, 10))
    assert connection.sizes() == []
    connection.client.resumeProducing()
    assert connection.sizes() == [(1, 10, 1)]


def test_a_server_that_reads_nothing_gets_17_kib_of_answers() -> None:
    connection, ping = Connection(), wire.head(8, wire.PING, 0, 0) + bytes(8)
    connection.ask()
    for _ in range(2):  # they are counted anew
        connection.client.pauseProducing()
        connection.client.pauseProducing()
        for _ in range(1024):
            connection.clock.advance(0.1)
            connection.receives(ping)
        assert not connection.transport.aborted
        connection.client.resumeProducing()
    connection.receives(ping * 5)
    connection.client.pauseProducing()
    for _ in range(1025):
        connection.clock.advance(0.1)
        connection.receives(ping)
    assert connection.transport.aborted


def test_a_body_that_arrives_ends_with_its_last_bytes_or_after_them() -> None:
    source = Arriving()
    connection = Connection({wire.INITIAL_WINDOW_SIZE: 5})
    body = StreamedBody(source, None, b"abc")
    exchange, _ = connection.ask(POST, body)
    assert connection.sizes() == [(1, 3, 0)]
    body.received(b"defg")
    body.end()
    assert connection.sizes() == [(1, 2, 0)]
    connection.receives(wire.window_update(1, 5))
    assert connection.sizes() == [(1, 2, 1)]
    body = StreamedBody(source, None, b"abc")
    exchange, _ = connection.ask(POST, body)
    connection.sizes()
    body.end()
    assert connection.sizes() == [(3, 0, 1)]
    assert exchange.is_whole


def test_an_answer_ends_its_request() -> None:
    connection = Connection()
    first, answered = connection.ask()
    second, _ = connection.ask()
    connection.sent()
    connection.receives(headers(("a", "b")), data(b"abc", ends=True))
    assert (first.answer, connection.told[1:]) == (answered.result, [])
    assert outcome(first) == "b'abc' [None]"
    connection.receives(headers(stream=3, ends=True))
    assert (outcome(second), connection.told[1:], connection.sent()) == ("b'' [None]", ["rests"], [])
    connection.receives(headers(stream=3, ends=True))  # of a stream that is over
    assert connection.transport.aborted


def test_an_answer_before_the_request_has_ended_ends_it() -> None:
    connection = Connection({wire.INITIAL_WINDOW_SIZE: 1})
    connection.ask(POST, b"abc")
    connection.sent()
    connection.receives(headers(ends=True))
    assert connection.sent() == [(wire.RST_STREAM, 0, 1, bytes(4))]
    connection.receives(headers(ends=True))  # crosses the reset
    assert not connection.transport.aborted


NO_STATUS = "malformed response from server: missing status pseudo header"
STREAM_ERROR = "stream error: stream ID 1; {}; received from peer"


@pytest.mark.parametrize(
    ("frames", "why", "reset"),
    [
        ([wire.reset(1, Code.REFUSED_STREAM)], f"Unprocessed: {STREAM_ERROR.format('REFUSED_STREAM')}", None),
        ([wire.reset(1, Code.CANCEL)], f"BadAnswer: {STREAM_ERROR.format('CANCEL')}", None),
        ([wire.head(4, 3, 0, 1) + b"\0\0\1\0"], f"BadAnswer: {STREAM_ERROR.format('unknown error code 0x100')}", None),
        ([data(b"a")], "BadAnswer: DATA before HEADERS", Code.PROTOCOL_ERROR),
        ([data(b"", ends=True)], "BadAnswer: an end before HEADERS", Code.PROTOCOL_ERROR),
        *(([headers(status=status)], f"BadAnswer: {NO_STATUS}", Code.PROTOCOL_ERROR) for status in ("20", "2000", "20x")),
        *(([headers(field)], "BadAnswer: malformed header field", Code.PROTOCOL_ERROR)
          for field in (("Upper", "x"), ("connection", "close"), ("a", "b\nc"))),
        ([headers(("content-length", "3"), ends=True)], "BadAnswer: unexpected EOF", Code.PROTOCOL_ERROR),
        *(([frame], "BadAnswer: too many interim answers, or one that ends the stream", Code.PROTOCOL_ERROR)
          for frame in (headers(status="101"), headers(status="100", ends=True))),
        ([headers(("x", "y" * 262_144))], "BadAnswer: server response headers exceeded 262144 bytes", Code.PROTOCOL_ERROR),
    ],
)  # fmt: skip
def test_answers_that_are_none(frames: list[bytes], why: str, reset: Code | None) -> None:
    connection = Connection()
    _, answered = connection.ask()
    connection.sent()
    connection.receives(*frames)
    assert error(answered) == why
    wanted = [(wire.RST_STREAM, 0, 1, int(reset).to_bytes(4))] if reset else []
    assert [frame for frame in connection.sent() if frame[0] == wire.RST_STREAM] == wanted
    assert (connection.transport.aborted, connection.client.streams) == (False, {})


@pytest.mark.parametrize(
    ("frames", "found", "reset"),
    [
        ([headers(), data(b"a"), wire.reset(1, Code.REFUSED_STREAM)], STREAM_ERROR.format("REFUSED_STREAM"), False),
        ([headers(("content-length", "3")), data(b"abcd")], "the body has another length", True),
        ([headers(), headers()], "trailers before the end of the body", True),
        ([headers(("content-length", "3")), headers(ends=True)], "trailers before the end of the body", True),
        ([headers(status="100"), headers(), data(b"a"), headers(("t", "x"), ends=True)], "b'a' [None]", False),
        ([headers(("content-length", "1")), data(b"a"), headers(("t", "x"), ends=True)], "b'a' [None]", False),
        ([headers(("content-length", "5"), status="304", ends=True)], "b'' [None]", False),
        ([headers(("content-length", "5"), status="204", ends=True)], "b'' [None]", False),
    ],
)  # fmt: skip
def test_what_follows_the_head_of_an_answer(frames: list[bytes], found: str, reset: bool) -> None:
    connection = Connection()
    exchange, _ = connection.ask()
    connection.sent()
    connection.receives(*frames)
    assert found in outcome(exchange)
    assert [frame[0] for frame in connection.sent()] == [wire.RST_STREAM] * reset


def test_the_answer_to_head_has_a_length_and_no_body() -> None:
    connection = Connection()
    exchange, _ = connection.ask(bodiless=True)
    connection.receives(headers(("content-length", "5"), ends=True))
    assert outcome(exchange) == "b'' [None]"


def test_a_reader_that_goes_on_opens_the_window_from_half_of_it() -> None:
    for size, opened in ((WINDOW // 2 - 1, []), (WINDOW // 2, [(wire.WINDOW_UPDATE, 0, 1, (WINDOW // 2).to_bytes(4))])):
        connection = Connection()
        exchange, _ = connection.ask()
        connection.sent()
        connection.receives(headers())
        exchange.pauseProducing()
        for at in range(0, size, wire.DEFAULT_FRAME):
            connection.receives(data(bytes(min(wire.DEFAULT_FRAME, size - at))))
        assert connection.sent() == []
        exchange.resumeProducing()
        assert connection.sent() == opened


def test_a_request_that_is_given_up_is_reset_once() -> None:
    connection = Connection()
    exchange, answered = connection.ask()
    connection.sent()
    exchange.abort()
    exchange.abort()
    assert connection.sent() == [(wire.RST_STREAM, 0, 1, int(Code.CANCEL).to_bytes(4))]
    assert (answered.called, connection.told) == (False, [1000, "rests"])


@pytest.mark.parametrize(
    ("settings", "takes"),
    [({}, [1000]), ({wire.MAX_CONCURRENT_STREAMS: 2}, [2]), ({wire.MAX_CONCURRENT_STREAMS: 0}, [0, "leaving"])],
)
def test_a_server_says_how_many_requests_it_takes_at_once(settings: dict[int, int], takes: list[Any]) -> None:
    connection = Connection(settings)
    assert connection.told == takes
    for number in range(takes[0]):
        assert connection.client.takes(), number
        connection.ask()
    assert not connection.client.takes()
    connection.receives(wire.settings({}))
    assert connection.told == takes
    connection.receives(wire.settings({wire.MAX_CONCURRENT_STREAMS: 1001}))
    assert connection.client.takes() is (takes[0] > 0)


def test_the_last_number_of_a_stream() -> None:
    connection = Connection()
    for highest, takes in (((1 << 31) - 5, True), ((1 << 31) - 3, False)):
        connection.client.highest = highest
        assert connection.client.takes() is takes
    connection.client.highest = (1 << 31) - 5
    exchange, _ = connection.ask()
    assert exchange.number == (1 << 31) - 3


def test_a_server_that_leaves_answers_what_it_has_begun() -> None:
    connection = Connection()
    exchanges = [connection.ask() for _ in range(4)]
    connection.receives(headers(), headers(stream=5))
    connection.receives(wire.goaway(3, Code.ENHANCE_YOUR_CALM))
    text = "http2: server sent GOAWAY and closed the connection; LastStreamID=3, ErrCode=ENHANCE_YOUR_CALM"
    assert error(exchanges[3][1]) == f"Unprocessed: {text}"
    assert text in outcome(exchanges[2][0])
    assert (list(connection.client.streams), connection.told) == ([1, 3], [1000, "leaving"])
    assert not connection.client.takes() and not connection.transport.disconnecting
    connection.receives(data(b"", ends=True), headers(stream=3))
    assert not connection.transport.disconnecting
    connection.receives(data(b"", stream=3, ends=True))
    assert connection.transport.disconnecting and connection.transport.producer is None
    connection.client.connectionLost(Failure(ConnectionDone()))
    assert connection.told == [1000, "leaving", "rests", "ended"]
    assert connection.clock.getDelayedCalls() == []


def test_a_lost_connection_is_told_with_the_reason_or_what_the_server_said() -> None:
    for frames, why in (([], "ConnectionDone: Connection was closed cleanly."), ([wire.goaway(1, Code.NO_ERROR)],
            "BadAnswer: http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR")):  # fmt: skip
        connection = Connection()
        _, answered = connection.ask()
        connection.receives(*frames)
        connection.client.connectionLost(Failure(ConnectionDone()))
        assert error(answered) == why


def test_a_violation_is_told_to_the_server_and_to_all_requests() -> None:
    connection = Connection()
    exchange, answered = connection.ask()
    _, waiting = connection.ask()
    connection.receives(headers())
    connection.sent()
    connection.receives(data(b"a", stream=9))
    assert connection.sent() == [(wire.GOAWAY, 0, 0, bytes(4) + int(Code.PROTOCOL_ERROR).to_bytes(4))]
    assert error(waiting) == "BadAnswer: connection error: PROTOCOL_ERROR: DATA of no stream"
    assert "DATA of no stream" in outcome(exchange)
    connection.receives(data(b"a", stream=9))
    assert connection.sent() == []


def test_windows_have_a_largest_size() -> None:
    for first, second, aborted in (((1 << 31) - 1 - 65_535, 1, True), ((1 << 31) - 1 - 65_536, 1, False)):
        connection = Connection()
        connection.receives(wire.window_update(0, first))
        connection.receives(wire.window_update(0, second))
        assert connection.transport.aborted is aborted
        connection = Connection()
        _, answered = connection.ask()
        connection.receives(wire.window_update(1, first))
        connection.receives(wire.window_update(1, second))
        assert not connection.transport.aborted
        assert answered.called is aborted
        if aborted:
            assert error(answered) == "BadAnswer: the stream's window is too large"


def test_a_connection_without_requests_ends_after_90_seconds() -> None:
    connection, alive = Connection(), wire.pong(bytes(8))
    for seconds in range(1, 90):
        connection.clock.advance(1)
        connection.receives(alive)
        assert not connection.client.is_leaving, seconds
    connection.clock.advance(1)
    for _ in range(30):  # it looks when 30 seconds were quiet
        connection.clock.advance(1)
    assert connection.client.is_leaving and connection.transport.disconnecting


def test_a_ping_is_sent_after_30_quiet_seconds_and_the_end_comes_15_later() -> None:
    connection = Connection()
    connection.ask()
    connection.sent()
    connection.clock.advance(20)
    connection.receives(wire.pong(bytes(8)))
    connection.clock.advance(29.5)
    assert connection.sent() == []
    connection.clock.advance(0.5)
    assert connection.sent() == [(wire.PING, 0, 0, bytes(8))]
    connection.clock.advance(14.5)
    assert not connection.transport.aborted
    connection.clock.advance(0.5)
    assert connection.transport.aborted and connection.clock.getDelayedCalls() == []
