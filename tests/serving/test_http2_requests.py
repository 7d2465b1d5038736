"""What becomes of requests, streams and the whole of an HTTP/2 connection, frame by frame and second by second."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hpack
import pytest
from twisted.python.failure import Failure

from kapi.process.shares import Flow, Level
from kapi.request.pending import MIN_COUNTED_BYTES, REFUSAL, Pending
from kapi.serving.connections import (
    BODY_TIMEOUT,
    CLOSE_TIMEOUT,
    GOAWAY_TIMEOUT,
    HEAD_TIMEOUT,
    IDLE_TIMEOUT,
    PEER_TIMEOUT,
    ConnectionErrors,
)
from kapi.serving.http2 import Http2
from kapi.serving.http2_stream import Stream
from kapi.serving.request import RequestHeaders
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.frames import Code
from kapi.wire.http2.receiving import CONNECTION_WINDOW, WINDOW

GET = ((":method", "GET"), (":scheme", "https"), (":path", "/a"), (":authority", "x"))
POST = ((":method", "POST"), *GET[1:])
END = wire.END_STREAM


class Request:
    """Notes what the connection does with it."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.requestHeaders = RequestHeaders()
        self.length: Any = "not told"
        self.size = 0
        self.waits_for_body = False
        self.body: list[bytes] = []
        self.received: Any = None
        self.lost: list[Failure] = []
        self.soon: Any = None
        self.streamed: Any = None
        self.fails = False

    def gotLength(self, length: int | None) -> None:
        self.length = length

    def count_head(self, size: int, waits: bool) -> None:
        self.size, self.waits_for_body = size, waits

    def stream_soon(self, *arguments: Any) -> None:
        self.soon = arguments

    def handleContentChunk(self, data: bytes) -> None:
        self.body.append(data)

    def requestReceived(self, *arguments: Any) -> None:
        self.received = arguments
        if self.fails:
            raise ValueError("a fault")

    def connectionLost(self, reason: Failure) -> None:
        self.lost.append(reason)


class Transport:
    def __init__(self) -> None:
        self.flow = Flow(Level("a"))
        self.data: list[bytes] = []
        self.closed = self.aborted = 0

    def write(self, data: bytes) -> None:
        self.data.append(data)

    def getPeer(self) -> Any:
        return SimpleNamespace(host="192.0.2.1")

    def unregisterProducer(self) -> None: ...

    def loseConnection(self) -> None:
        self.closed += 1

    def abortConnection(self) -> None:
        self.aborted += 1


class Bench:
    """A connection at its beginning, at 1,000 seconds of the reactor."""

    def __init__(self, max_streams: int = 100, limit: int = 0, start: bool = True) -> None:
        self.requests: list[Request] = []
        self.pending = Pending(lambda: self.owner.now, limit)
        turn = SimpleNamespace(wait=lambda work, flow: work(), over=lambda: True)
        runner = SimpleNamespace(
            pending=self.pending, unflushed=None, turn=turn, streams_body=lambda path: path == b"/streamed",
            reactor=SimpleNamespace(seconds=lambda: self.owner.now),
        )  # fmt: skip
        self.owner: Any = SimpleNamespace(
            now=1000.0, closing=False, max_streams=max_streams, watched=set(), errors=ConnectionErrors(), runner=runner,
            stream_request_class=self.request,
        )  # fmt: skip
        self.transport = Transport()
        self.connection = Http2(self.owner, self.transport)  # type: ignore[arg-type]
        self.owner.watched.add(self.connection)
        self.encoder = hpack.Encoder()
        if start:
            self.connection.dataReceived(wire.PREFACE + wire.settings({}))
            self.frames()

    def request(self, stream: Stream) -> Request:
        made = Request(stream)
        self.requests.append(made)
        return made

    def head(self, number: int, fields: Any = GET, flags: int = END) -> bytes:
        return wire.header_block(number, self.encoder.encode([*fields], huffman=False), flags, wire.DEFAULT_FRAME)

    def ask(self, number: int, fields: Any = GET, flags: int = END) -> Request | None:
        count = len(self.requests)
        self.connection.dataReceived(self.head(number, fields, flags))
        return self.requests[-1] if len(self.requests) > count else None

    def give(self, number: int, data: bytes, ends: bool = False) -> None:
        self.connection.dataReceived(wire.head(len(data), wire.DATA, END if ends else 0, number) + data)

    def frames(self) -> list[tuple[int, int, bytes]]:
        """(type, stream, payload) of the frames since the last call."""
        data, found = b"".join(self.transport.data), []
        self.transport.data.clear()
        while data:
            high, low, kind, _, number = wire.unpack_head(data)
            end = wire.HEAD_SIZE + (high << 8 | low)
            found.append((kind, number, data[wire.HEAD_SIZE : end]))
            data = data[end:]
        return found

    def answers(self) -> list[tuple[int, dict[str, str], bytes]]:
        """(stream, fields, body) of the whole answers since the last call."""
        found = self.frames()
        decoder = hpack.Decoder()
        heads = {number: dict(decoder.decode(payload)) for kind, number, payload in found if kind == wire.HEADERS}
        bodies = {number: payload for kind, number, payload in found if kind == wire.DATA}
        return [(number, fields, bodies.get(number, b"")) for number, fields in heads.items()]

    @property
    def counted(self) -> dict[str, float]:
        return {labels[0]: count for labels, count in self.owner.errors.counter.rows.items()}


def number(payload: bytes, place: int = 0) -> int:
    return int.from_bytes(payload[4 * place : 4 * place + 4])


def reset(stream: int, code: Code) -> tuple[int, int, bytes]:
    return wire.RST_STREAM, stream, int(code).to_bytes(4)


def away(last: int, code: Code, text: bytes = b"") -> tuple[int, int, bytes]:
    return wire.GOAWAY, 0, last.to_bytes(4) + int(code).to_bytes(4) + text


def test_a_connection_begins_with_what_the_server_allows() -> None:
    bench = Bench(max_streams=7, start=False)
    settings, update = bench.frames()
    assert dict(wire.SETTING.iter_unpack(settings[2])) == {
        wire.MAX_CONCURRENT_STREAMS: 7, wire.INITIAL_WINDOW_SIZE: WINDOW, wire.MAX_HEADER_LIST_SIZE: 1048896,
    }  # fmt: skip
    assert update[:2] == (wire.WINDOW_UPDATE, 0) and number(update[2]) == CONNECTION_WINDOW - wire.DEFAULT_WINDOW


def test_a_request_without_a_body_is_received_at_once() -> None:
    bench = Bench()
    found = bench.ask(1, (*GET, ("a", "b")))
    assert found is not None and found.received == (b"GET", b"/a", b"HTTP/2") and found.length is None
    assert dict(found.requestHeaders.getAllRawHeaders()) == {b"Host": [b"x"], b"A": [b"b"]}
    assert (found.size, found.stream.complete, found.stream.head, found.soon) == (0, True, None, None)


@pytest.mark.parametrize("length", [None, 5])
def test_a_request_with_a_body_is_received_when_that_has_come(length: int | None) -> None:
    bench = Bench()
    found = bench.ask(1, (*POST, ("content-length", "5")) if length else POST, 0)
    assert found is not None and (found.received, found.length, found.soon) == (None, length, None)
    bench.give(1, b"abc")
    bench.give(1, b"de", ends=True)
    assert found.body == [b"abc", b"de"] and found.received == (b"POST", b"/a", b"HTTP/2")
    assert bench.connection._bodies == {}


def test_a_client_may_ask_whether_to_go_on() -> None:
    bench = Bench()
    bench.ask(1, (*POST, ("expect", "100-continue")), 0)
    assert [(kind, stream) for kind, stream, _ in bench.frames()] == [(wire.HEADERS, 1)]
    bench.ask(3, (*POST, ("expect", "100-continue")))
    assert bench.frames() == [], "it has no body"


def test_a_streamed_body_is_given_on_and_opens_its_window_as_it_is_taken() -> None:
    bench = Bench()
    found = bench.ask(1, (*POST[:2], (":path", "/streamed"), POST[3], ("content-length", "300000")), 0)
    assert found is not None and found.soon == (b"POST", b"/streamed", b"HTTP/2", 300000)
    stream, connection = found.stream, bench.connection
    piece = b"x" * wire.DEFAULT_FRAME
    bench.give(1, piece)
    stream.stream_body(found, 1000)  # type: ignore[arg-type]
    assert (stream.head, stream.held, connection._bodies) == (None, True, {})
    assert stream.free == len(piece) - 1000
    bench.frames()
    quarter = WINDOW // 4
    connection.taken(stream, quarter - stream.free - 1)
    assert bench.frames() == []
    connection.taken(stream, 1)
    assert bench.frames() == [(wire.WINDOW_UPDATE, 1, quarter.to_bytes(4))]
    assert (stream.free, stream.receive_window) == (0, WINDOW - len(piece) + quarter)
    stream.complete = True
    connection.taken(stream, quarter)
    stream.complete = False
    del connection.streams[1]
    connection.taken(stream, quarter)
    assert bench.frames() == [], "nothing more comes"


def test_the_end_of_a_streamed_body_is_passed_on() -> None:
    bench, ends = Bench(), []
    found = bench.ask(1, (*POST[:2], (":path", "/streamed"), POST[3]), 0)
    assert found is not None
    found.stream.stream_body(found, 0)  # type: ignore[arg-type]
    found.streamed = SimpleNamespace(end=lambda: ends.append(1))
    bench.give(1, b"abc", ends=True)
    assert (ends, found.body, found.received) == ([1], [b"abc"], None)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_target_that_is_none_is_refused(method: str, ends: bool) -> None:
    bench = Bench()
    fields = ((":method", method), (":scheme", "https"), (":path", "a"), (":authority", "x"))
    assert bench.ask(1, fields, END if ends else 0) is None
    ((stream, answer, body),) = Bench.answers(bench) if ends else [*Bench.answers(bench)]
    text = b"" if method == "HEAD" else b"400 Bad Request"
    assert (stream, body, answer[":status"], answer["content-type"]) == (1, text, "400", "text/plain; charset=utf-8")
    assert answer["content-length"] == str(len(text)) and answer["date"].endswith(" GMT")
    assert bench.connection.streams == {} and not bench.transport.closed


@pytest.mark.parametrize(("ends", "kinds"), [(True, []), (False, [reset(1, Code.NO_ERROR)])])
def test_the_rest_of_a_refused_body_is_not_asked_for(ends: bool, kinds: list[Any]) -> None:
    bench = Bench()
    bench.ask(1, ((":method", "PUT"), (":scheme", "https"), (":path", "a")), END if ends else 0)
    assert [frame for frame in bench.frames() if frame[0] == wire.RST_STREAM] == kinds


def large(size: int) -> tuple[tuple[str, str], ...]:
    return (*GET, *((f"a{place}", "v" * 1000) for place in range(size // 1000)))


@pytest.mark.parametrize(("size", "counted"), [(10_000, False), (2 * MIN_COUNTED_BYTES, True)])
@pytest.mark.parametrize("ends", [True, False])
def test_large_heads_are_counted_and_refused_when_too_much_waits(size: int, counted: bool, ends: bool) -> None:
    bench = Bench(limit=10_000_000)
    found = bench.ask(1, large(size), END if ends else 0)
    assert found is not None and bool(found.size) is counted
    assert found.waits_for_body is (counted and not ends)
    assert (bench.connection._block_bytes, bench.pending._holders) == (None, {})
    bench.pending.limit = -1
    refused = bench.ask(3, large(size), END if ends else 0)
    if not counted:
        assert refused is not None
        return
    assert refused is None and bench.counted == {"protocol": 1}
    assert bench.frames()[-1] == away(
        3 if bench.connection.highest == 3 else 1, Code.ENHANCE_YOUR_CALM, REFUSAL.encode()
    )


def test_a_head_that_is_refused_once_it_is_whole() -> None:
    bench = Bench()
    bench.connection.block_grows = lambda size: None  # type: ignore[method-assign]
    bench.pending.limit = -1
    assert bench.ask(1, large(2 * MIN_COUNTED_BYTES)) is None
    ((stream, answer, body),) = bench.answers()
    assert (stream, answer[":status"], body, bench.pending.refused) == (1, "429", REFUSAL.encode(), 1)
    assert answer["content-type"] == "text/plain; charset=utf-8"


def test_a_list_of_fields_that_is_too_large_is_refused_as_by_gos_server() -> None:
    bench = Bench()
    assert bench.ask(1, (*GET, *((f"a{place}", "v" * 60_000) for place in range(20)))) is None
    ((stream, answer, body),) = bench.answers()
    assert (stream, answer[":status"], answer["content-type"]) == (1, "431", "text/html; charset=utf-8")
    assert body == b"<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>"
    assert bench.ask(3) is not None


@pytest.mark.parametrize(("size", "counted"), [(MIN_COUNTED_BYTES, False), (MIN_COUNTED_BYTES + 1, True)])
def test_a_block_that_does_not_end_is_counted_while_it_grows(size: int, counted: bool) -> None:
    bench = Bench()
    bench.connection.block_grows(size)
    assert bench.pending.size == (size if counted else 0)
    assert (bench.connection in bench.pending._holders) is counted
    bench.connection.block_grows(size + 1000)
    assert bench.pending.size == size + 1000
    bench.connection.block_grows(0)
    assert (bench.pending.size, bench.pending._holders) == (0, {})
    bench.connection.block_grows(size + 1)
    bench.connection.cut_off()
    assert bench.transport.aborted == 1 and bench.pending.size == 0


def test_a_lost_connection_gives_back_what_was_counted() -> None:
    bench = Bench()
    bench.connection.block_grows(MIN_COUNTED_BYTES + 1)
    first, second = bench.ask(1), bench.ask(3, POST, 0)
    reason = Failure(ValueError("gone"))
    bench.connection.connectionLost(reason)
    assert (bench.pending.size, bench.pending._holders, bench.connection.streams) == (0, {}, {})
    assert first is not None and second is not None and first.lost == second.lost == [reason]
    assert bench.ask(5) is None, "nothing more is read"
    assert bench.frames() == []


def test_too_many_streams() -> None:
    bench = Bench(max_streams=2)
    assert bench.ask(1) and bench.ask(3) and bench.ask(5) is None
    assert bench.frames() == [reset(5, Code.REFUSED_STREAM)]


def test_a_request_that_was_reset_with_the_same_bytes_does_not_begin() -> None:
    bench = Bench()
    cancel = wire.reset(1, Code.CANCEL)
    bench.connection.dataReceived(bench.head(1) + cancel + bench.head(3))
    first, second = bench.requests
    assert first.received is None and second.received is not None
    assert [str(failure.value) for failure in first.lost] == [
        "Connection to the other side was lost in a non-clean fashion: the client reset the stream with code 8."
    ]


def test_a_fault_of_the_server_costs_its_stream_alone() -> None:
    bench = Bench()
    request = bench.request

    def failing(stream: Stream) -> Request:
        made = request(stream)
        made.fails = stream.number == 1
        return made

    bench.owner.stream_request_class = failing
    bench.connection.dataReceived(bench.head(1) + bench.head(3))
    assert bench.frames() == [reset(1, Code.INTERNAL_ERROR)]
    assert len(bench.requests[0].lost) == 1 and bench.requests[1].received


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("last", [False, True])
def test_an_answer_ends_its_stream(blocked: bool, last: bool) -> None:
    bench = Bench()
    found = bench.ask(1)
    assert found is not None
    bench.owner.now = 1050.0
    assert bench.connection.quiet_since == float("inf")
    if last:
        bench.connection.leave_soon = True
    if blocked:
        bench.connection.pauseProducing()
    bench.connection.sending.head(found.stream, b"block")
    found.stream.requestDone(found)  # type: ignore[arg-type]
    assert found.stream.request is None
    if blocked:
        bench.connection.resumeProducing()
    assert (bench.connection.streams, bench.connection.quiet_since) == ({}, 1050.0)
    assert (away(1, Code.NO_ERROR) in bench.frames()) is last
    assert bench.transport.closed == 0


def test_an_answer_before_the_end_of_the_body() -> None:
    bench = Bench()
    found = bench.ask(1, POST, 0)
    assert found is not None
    bench.connection.sending.whole(found.stream, b"block", b"x")
    assert bench.frames()[-1] == reset(1, Code.NO_ERROR)
    assert bench.connection._bodies == {}
    bench.give(1, b"late", ends=True)
    assert found.body == [] and bench.frames() == [] and not bench.transport.closed


def test_a_stream_that_is_reset_here() -> None:
    bench = Bench()
    found = bench.ask(1)
    assert found is not None
    bench.connection.leave_soon = True
    found.stream.abortConnection()
    found.stream.cut_off()
    assert bench.frames() == [reset(1, Code.INTERNAL_ERROR), away(1, Code.NO_ERROR)]
    assert len(found.lost) == 1 and "the stream was reset" in str(found.lost[0].value)


def test_an_application_may_end_an_answer_by_its_connection() -> None:
    bench = Bench()
    found = bench.ask(1)
    assert found is not None
    bench.connection.sending.head(found.stream, b"block")
    bench.frames()
    for _ in range(2):
        found.stream.loseConnection()
    assert bench.frames() == [(wire.DATA, 1, b"")] and found.stream.request is None


# -- ends


def test_an_end_lets_the_open_streams_be_answered() -> None:
    bench = Bench()
    found = bench.ask(1)
    assert found is not None
    for _ in range(2):
        bench.connection.close_when_idle()
    assert bench.frames() == [away(1, Code.NO_ERROR)] and not bench.transport.closed
    assert bench.ask(3) is None
    assert bench.frames() == [reset(3, Code.REFUSED_STREAM)]
    bench.connection.sending.whole(found.stream, b"block", b"x")
    assert bench.transport.closed == 1


def test_an_idle_connection_ends_at_once_when_the_server_stops() -> None:
    bench = Bench()
    bench.connection.close_when_idle()
    assert bench.frames() == [away(0, Code.NO_ERROR)] and bench.transport.closed >= 1


@pytest.mark.parametrize("closing", [True, False])
def test_a_connection_that_was_told_to_go_waits_for_its_client(closing: bool) -> None:
    bench = Bench()
    found = bench.ask(1)
    assert found is not None
    bench.connection.go_away()
    bench.owner.closing = closing
    bench.connection.sending.whole(found.stream, b"block", b"x")
    assert bench.transport.closed == int(closing)


@pytest.mark.parametrize("streams", [0, 1])
def test_a_client_that_leaves_gets_its_answers(streams: int) -> None:
    bench = Bench()
    found = bench.ask(1) if streams else None
    bench.connection.dataReceived(wire.goaway(0, Code.NO_ERROR))
    assert bench.transport.closed == (not streams)
    if found is not None:
        bench.connection.sending.whole(found.stream, b"block", b"x")
        assert bench.transport.closed == 1


@pytest.mark.parametrize("told", [False, True])
def test_a_fault_of_the_client_ends_the_connection(told: bool) -> None:
    bench = Bench()
    found = bench.ask(1)
    assert found is not None
    if told:
        bench.connection.go_away()
        bench.connection.highest = 7
    bench.frames()
    bench.connection.dataReceived(wire.head(0, wire.PUSH_PROMISE, 0, 0))
    text = b"PUSH_PROMISE, which nothing here allows"
    assert bench.frames() == [away(1, Code.PROTOCOL_ERROR, text)]
    assert bench.counted == {"protocol": 1} and bench.transport.closed == 1
    assert len(found.lost) == 1
    bench.connection._end(Code.PROTOCOL_ERROR, "again")
    assert bench.frames() == [] and bench.counted == {"protocol": 1}
    bench.connection.sweep(1000.0 + CLOSE_TIMEOUT - 0.5)
    assert bench.transport.aborted == 0
    bench.connection.sweep(1000.0 + CLOSE_TIMEOUT)
    assert bench.transport.aborted == 1 and bench.owner.watched == set()


def test_the_end_of_an_idle_connection() -> None:
    bench = Bench()
    bench.connection.sweep(1000.0 + IDLE_TIMEOUT - 0.5)
    assert bench.frames() == []
    bench.connection.sweep(1000.0 + IDLE_TIMEOUT)
    assert bench.frames() == [away(0, Code.NO_ERROR)] and bench.counted == {} and bench.transport.closed == 1
    bench = Bench()
    bench.connection.go_away()
    bench.frames()
    bench.connection.sweep(1000.0 + GOAWAY_TIMEOUT - 0.5)
    assert bench.frames() == []
    bench.connection.sweep(1000.0 + GOAWAY_TIMEOUT)
    assert bench.frames() == [away(0, Code.NO_ERROR)]
    busy = Bench()
    busy.ask(1)
    busy.connection.sweep(1000.0 + 10 * IDLE_TIMEOUT)
    assert busy.frames() == []


def test_a_header_block_that_does_not_end() -> None:
    bench = Bench()
    whole = bench.head(1, GET, 0)
    begun = wire.head(3, wire.HEADERS, END, 1) + whole[9:12]
    bench.connection.dataReceived(begun)
    bench.owner.now = 1005.0
    bench.connection.dataReceived(wire.head(1, wire.CONTINUATION, 0, 1) + whole[12:13])
    bench.connection.sweep(1000.0 + HEAD_TIMEOUT - 0.5)
    assert bench.frames() == []
    bench.connection.sweep(1000.0 + HEAD_TIMEOUT)
    assert bench.frames() == [away(0, Code.PROTOCOL_ERROR, b"a header block did not end")]
    assert bench.counted == {"timeout": 1}


def test_a_header_block_that_ended_is_not_late() -> None:
    bench = Bench()
    whole = bench.head(1, GET, 0)
    bench.connection.dataReceived(wire.head(3, wire.HEADERS, END, 1) + whole[9:12])
    bench.connection.dataReceived(wire.head(len(whole) - 12, wire.CONTINUATION, wire.END_HEADERS, 1) + whole[12:])
    assert len(bench.requests) == 1
    bench.connection.sweep(1000.0 + HEAD_TIMEOUT)
    assert bench.frames() == [] and bench.transport.closed == 0


def test_bodies_that_do_not_come_cost_their_streams() -> None:
    bench = Bench()
    first = bench.ask(1, POST, 0)
    bench.owner.now = 1001.0
    second = bench.ask(3, POST, 0)
    assert first is not None and second is not None
    bench.connection.sweep(1000.0 + BODY_TIMEOUT - 0.5)
    assert bench.frames() == []
    bench.connection.sweep(1000.0 + BODY_TIMEOUT)
    assert bench.frames() == [reset(1, Code.CANCEL)] and bench.counted == {"timeout": 1}
    assert (len(first.lost), len(second.lost)) == (1, 0)


def test_a_client_that_reads_nothing() -> None:
    bench = Bench()
    bench.ask(1)
    bench.connection.pauseProducing()
    bench.owner.now = 1100.0
    bench.connection.pauseProducing()
    bench.connection.sweep(1000.0 + PEER_TIMEOUT - 0.5)
    assert bench.transport.aborted == 0
    bench.connection.resumeProducing()
    bench.connection.sweep(1000.0 + PEER_TIMEOUT)
    assert bench.transport.aborted == 0
    bench.connection.pauseProducing()
    bench.connection.sweep(1100.0 + PEER_TIMEOUT)
    assert bench.transport.aborted == 1 and bench.owner.watched == set()
