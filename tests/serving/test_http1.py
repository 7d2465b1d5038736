"""A connection of HTTP/1.1 byte by byte: heads, bodies, what comes early, deadlines, ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from kapi.process.shares import Flow, Level
from kapi.request.headers import MAX_HEADERS
from kapi.request.pending import MIN_COUNTED_BYTES, REFUSAL, Pending
from kapi.serving import http1
from kapi.serving.connections import (
    BODY_TIMEOUT,
    CLOSE_TIMEOUT,
    HEAD_TIMEOUT,
    IDLE_TIMEOUT,
    MAX_EARLY_BYTES,
    MAX_HEADER_BYTES,
    ConnectionErrors,
)
from kapi.serving.http1 import Channel, Pull
from kapi.serving.request import RequestHeaders

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


def post(length: int, *fields: bytes) -> bytes:
    return b"\r\n".join([b"POST /a HTTP/1.1", b"Host: x", b"Content-Length: %d" % length, *fields]) + b"\r\n\r\n"


class Request:
    """Notes what the channel does with it."""

    startedWriting = 0

    def __init__(self, channel: Any, queued: bool) -> None:
        self.channel = channel
        self.runner = channel.owner.runner
        self.requestHeaders, self.responseHeaders = RequestHeaders(), Headers()
        self.length: Any = "not told"
        self.head: Any = None
        self.body = b""
        self.line: Any = None
        self.lost: list[Failure] = []
        self.soon: Any = None
        self.streamed: Any = None
        channel.owner.requests.append(self)

    def gotLength(self, length: int | None) -> None:
        self.length = length

    def count_head(self, size: int, waits: bool) -> None:
        self.head = size, waits

    def stream_soon(self, *arguments: Any) -> None:
        self.soon = arguments

    def handleContentChunk(self, data: bytes) -> None:
        self.body += data

    def requestReceived(self, *line: bytes) -> None:
        self.line = line

    def end_streaming(self) -> None:
        pass

    def connectionLost(self, reason: Failure) -> None:
        self.lost.append(reason)

    @property
    def closes(self) -> bool:
        return self.responseHeaders.getRawHeaders(b"connection") == [b"close"]


class Transport:
    def __init__(self) -> None:
        self.flow = Flow(Level("a"))
        self.data: list[bytes] = []
        self.closed = self.aborted = 0
        self.paused: list[bool] = []

    def write(self, data: bytes) -> None:
        self.data.append(data)

    def getPeer(self) -> Any:
        return SimpleNamespace(host="192.0.2.1")

    def registerProducer(self, producer: Any, streaming: bool) -> None: ...

    def unregisterProducer(self) -> None: ...

    def loseConnection(self) -> None:
        self.closed += 1

    def abortConnection(self) -> None:
        self.aborted += 1

    def pauseProducing(self) -> None:
        self.paused.append(True)

    def resumeProducing(self) -> None:
        self.paused.append(False)


class Bench:
    """A connection that was made at 1,000 seconds of the reactor."""

    def __init__(self, limit: int = 0) -> None:
        self.pending = Pending(lambda: self.owner.now, limit)
        runner = SimpleNamespace(
            pending=self.pending, streams_body=lambda path: path.startswith(b"/streamed"), turn=None
        )
        self.owner: Any = SimpleNamespace(
            now=1000.0, closing=False, watched=set(), errors=ConnectionErrors(), runner=runner, requests=[]
        )
        self.requests: list[Request] = self.owner.requests
        self.transport = Transport()
        self.channel = Channel()
        self.channel.owner, self.channel.requestFactory = self.owner, Request  # type: ignore[assignment]
        self.owner.watched.add(self.channel)
        self.channel.makeConnection(self.transport)  # type: ignore[arg-type]

    def give(self, *parts: bytes) -> None:
        for part in parts:
            self.channel.dataReceived(part)

    def done(self) -> None:
        assert self.channel.request is not None
        self.channel.requestDone(self.channel.request)

    @property
    def written(self) -> bytes:
        found = b"".join(self.transport.data)
        self.transport.data.clear()
        return found

    @property
    def counted(self) -> dict[str, float]:
        return {labels[0]: count for labels, count in self.owner.errors.counter.rows.items()}


def refusal(status: bytes, text: bytes | None = None) -> bytes:
    text = status if text is None else text
    return (
        b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
        % (status, len(text), text)
    )


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_a_head_in_any_pieces(step: int) -> None:
    bench = Bench()
    data = b"\r\n" + GET
    bench.give(*(data[at : at + step] for at in range(0, len(data), step)))
    (request,) = bench.requests
    assert (request.line, request.length) == ((b"GET", b"/a", b"HTTP/1.1"), 0)
    assert dict(request.requestHeaders.getAllRawHeaders()) == {b"Host": [b"x"]}
    assert not request.closes and bench.channel.persistent and bench.written == b""


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize("chunked", [True, False])
def test_requests_one_after_the_other(step: int, chunked: bool) -> None:
    bench = Bench()
    chunks = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    data = (chunks if chunked else post(5) + b"abcde") + GET + GET
    bench.give(*(data[at : at + step] for at in range(0, len(data), step)))
    assert [each.body for each in bench.requests] == [b"abcde"], "the next one waits for the answer"
    assert bench.requests[0].length == (None if chunked else 5)
    bench.done()
    assert len(bench.requests) == 2
    bench.done()
    bench.done()
    assert [each.line[0] for each in bench.requests] == [b"POST", b"GET", b"GET"]
    assert bench.channel.unread() == b""


@pytest.mark.parametrize(
    ("version", "connection", "persists"),
    [
        (b"1.1", b"", True), (b"1.1", b"close", False), (b"1.1", b"Keep-Alive, CLOSE", False), (b"1.1", b"keep-alive", True),
        (b"1.0", b"", False), (b"1.0", b"keep-alive", True), (b"1.0", b"keep-alive, close", False), (b"1.0", b"closed", False),
        (b"1.1", b"closed", True), (b"1.2", b"", True),
    ],
)  # fmt: skip
def test_which_connections_go_on(version: bytes, connection: bytes, persists: bool) -> None:
    bench = Bench()
    field = b"Connection: %s\r\n" % connection if connection else b""
    bench.give(b"GET / HTTP/%s\r\nHost: x\r\n%s\r\n" % (version, field) + GET)
    assert bench.requests[0].closes is not persists
    bench.done()
    assert (bench.transport.closed, len(bench.requests)) == ((0, 2) if persists else (1, 1))


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (b"GET /a\r\n", refusal(b"400 Bad Request")),
        (b"GET /a HTTP/1.1\n", refusal(b"400 Bad Request")),
        (b"G@T /a HTTP/1.1\r\n", refusal(b"400 Bad Request")),
        (b"GET a HTTP/1.1\r\n", refusal(b"400 Bad Request")),
        (b"GET /a HTTP/1.1 x\r\n", refusal(b"400 Bad Request")),
        (b"GET /a HTTP/11\r\n", refusal(b"400 Bad Request")),
        (b"GET /a HTTP/2.0\r\n", refusal(b"505 HTTP Version Not Supported: unsupported protocol version")),
        (b"GET /a HTTP/0.9\r\n", refusal(b"505 HTTP Version Not Supported: unsupported protocol version")),
        (b"GET /a HTTP/1.1\r\n\r\n", refusal(b"400 Bad Request: missing required Host header")),
        (b"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n", refusal(b"400 Bad Request: malformed Host header")),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", refusal(b"400 Bad Request")),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n", refusal(b"400 Bad Request: invalid header value")),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nA\r\n\r\n", refusal(b"400 Bad Request")),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nExpect: b\r\n\r\n", refusal(b"417 Expectation Failed")),
        (b"POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", refusal(b"400 Bad Request")),
        (b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
         refusal(b"501 Not Implemented", b"Unsupported transfer encoding")),
        (post(1 << 63), refusal(b"400 Bad Request")),
        (post(5).replace(b"5", b"-5"), refusal(b"400 Bad Request")),
        (b"GET /a HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * MAX_HEADERS + b"\r\n",
         refusal(b"431 Request Header Fields Too Large")),
    ],
)  # fmt: skip
def test_heads_that_are_refused(head: bytes, answer: bytes) -> None:
    bench = Bench()
    bench.give(head, GET)
    assert bench.written == answer and bench.requests == []
    assert (bench.transport.closed, bench.counted) == (1, {"request": 1})
    bench.channel.sweep(1000.0 + CLOSE_TIMEOUT - 0.5)
    assert bench.transport.aborted == 0
    bench.channel.sweep(1000.0 + CLOSE_TIMEOUT)
    assert bench.transport.aborted == 1 and bench.owner.watched == set()


@pytest.mark.parametrize("length", [b"0", b"00", b"005", b"5", b"%d" % ((1 << 63) - 1)])
def test_lengths(length: bytes) -> None:
    bench = Bench()
    bench.give(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n" % length)
    assert bench.requests[0].length == int(length)
    assert (bench.requests[0].line is not None) is (int(length) == 0)


def test_a_bad_line_is_refused_before_its_head_is_complete_and_also_that_of_a_later_request() -> None:
    bench = Bench()
    for _ in range(2):
        bench.give(GET[:10], GET[10:20], GET[20:])
        bench.done()
    bench.give(b"GET ", b"/a\r", b"\n")
    assert bench.written == refusal(b"400 Bad Request") and len(bench.requests) == 2


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("whole", [True, False])
def test_how_long_a_head_may_be(over: int, whole: bool) -> None:
    bench = Bench()
    begin, end = b"GET /a HTTP/1.1\r\nHost: x\r\nA: ", b"\r\n\r\n"
    head = begin + b"a" * (MAX_HEADER_BYTES + over - len(begin) - len(end)) + end
    parts = [head] if whole else [head[:500_000], head[500_000:-1], head[-1:]]
    bench.give(*parts)
    assert len(bench.requests) == (not over)
    assert bench.written == (refusal(b"431 Request Header Fields Too Large") if over else b"")
    assert bench.pending.size == 0
    unending = Bench()
    unending.give(head[: MAX_HEADER_BYTES + over - 4] + b"aaaa")
    assert bool(unending.written) is bool(over)


@pytest.mark.parametrize("over", [0, 1])
def test_a_large_head_is_counted_while_it_comes(over: int) -> None:
    bench = Bench()
    begin = b"GET /a HTTP/1.1\r\nHost: x\r\nA: "
    part = begin + b"a" * (MIN_COUNTED_BYTES + over - len(begin))
    bench.give(part)
    assert bench.pending.size == (len(part) if over else 0)
    bench.give(b"bc")
    assert bench.pending.size == len(part) + 2 and bench.channel in bench.pending._holders
    bench.give(b"\r\n\r\n")
    assert (bench.pending.size, bench.pending._holders) == (0, {})
    assert bench.requests[0].head == (len(part) + 6, False)


@pytest.mark.parametrize(
    ("body", "waits"), [(b"", False), (b"Content-Length: 5\r\n", True), (b"Transfer-Encoding: chunked\r\n", True)]
)
def test_a_large_head_is_counted_with_its_request(body: bytes, waits: bool) -> None:
    for size, counted in ((10_000, False), (MIN_COUNTED_BYTES + 10, True)):
        bench = Bench()
        bench.give(b"POST /a HTTP/1.1\r\nHost: x\r\n%sA: %s\r\n\r\n" % (body, b"a" * size))
        head = bench.requests[0].head
        assert (head is not None) is counted
        assert head is None or head[1] is waits


def test_a_large_head_without_memory_for_it() -> None:
    bench = Bench(limit=MIN_COUNTED_BYTES)
    bench.give(b"GET /a HTTP/1.1\r\nHost: x\r\nA: " + b"a" * MIN_COUNTED_BYTES)
    assert bench.written == b"" and bench.pending.full
    second = Bench()
    second.owner.runner.pending = bench.pending
    second.give(b"GET /a HTTP/1.1\r\nHost: x\r\nA: " + b"a" * MIN_COUNTED_BYTES)
    assert second.written == refusal(b"429 Too Many Requests", REFUSAL.encode())
    assert bench.pending.refused == 1
    bench.channel.cut_off()
    assert (bench.transport.aborted, bench.pending.size, bench.pending._holders) == (1, 0, {})


@pytest.mark.parametrize("size", [MAX_EARLY_BYTES, MAX_EARLY_BYTES + 1])
def test_only_a_few_bytes_are_read_ahead(size: int) -> None:
    bench = Bench()
    bench.give(GET, b"x" * (size - 1))
    assert bench.transport.paused == []
    bench.give(b"x")
    assert bench.transport.paused == [True] * (size > MAX_EARLY_BYTES)
    assert len(bench.channel.unread()) == size
    bench.channel._keep(b"")
    assert bench.transport.paused == [True, False] * (size > MAX_EARLY_BYTES)


def test_a_client_that_reads_nothing_is_not_read() -> None:
    bench = Bench()
    bench.channel.pauseProducing()
    bench.give(GET)
    assert (bench.requests, bench.transport.paused) == ([], [True])
    bench.channel.resumeProducing()
    assert len(bench.requests) == 1 and bench.transport.paused == [True, False]


def test_a_client_that_asks_whether_to_go_on() -> None:
    for head, answer in (
        (post(5, b"Expect: 100-Continue"), b"HTTP/1.1 100 Continue\r\n\r\n"),
        (post(0, b"Expect: 100-continue"), b""),
        (post(5, b"Expect: 100-continue").replace(b"/1.1", b"/1.0"), b""),
        (post(5), b""),
    ):
        bench = Bench()
        bench.give(head)
        assert bench.written == answer
    bench = Bench()
    bench.give(post(5, b"Expect: 100-continue") + b"abcde")
    assert bench.requests[0].body == b"abcde"


@pytest.mark.parametrize("upgrade", [True, False])
def test_a_body_for_another_server_is_given_on(upgrade: bool) -> None:
    bench = Bench()
    head = post(5, *([b"Upgrade: a"] if upgrade else [])).replace(b"/a", b"/streamed")
    bench.give(head)
    (request,) = bench.requests
    assert request.soon == (None if upgrade else (b"POST", b"/streamed", b"HTTP/1.1", 5))
    whole = Bench()
    whole.give(head + b"abcde")
    assert whole.requests[0].soon is None


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("persists", [True, False])
def test_an_answer_before_the_end_of_a_streamed_body_ends_the_connection(
    complete: bool, started: bool, persists: bool
) -> None:
    bench = Bench()
    bench.give(post(5, *([] if persists else [b"Connection: close"])).replace(b"/a", b"/streamed"))
    (request,) = bench.requests
    bench.channel.stream_body(request, 0)  # type: ignore[arg-type]
    assert request.closes and bench.channel._since == 0.0
    request.streamed = SimpleNamespace(complete=complete)
    request.startedWriting = int(started)
    if complete:
        bench.give(b"abcde")
        assert request.line is not None
    goes_on = complete and persists and not started
    assert request.closes is not goes_on
    bench.done()
    assert bench.transport.closed == (not goes_on)
    bench.give(GET)
    assert len(bench.requests) == (2 if goes_on else 1)
    bench.channel.sweep(1000.0 + CLOSE_TIMEOUT)
    assert bench.transport.aborted == (not complete)


def test_a_streamed_body_that_waits_is_not_read() -> None:
    bench = Bench()
    bench.give(post(5).replace(b"/a", b"/streamed"))
    bench.channel.stream_body(bench.requests[0], 0)  # type: ignore[arg-type]
    bench.channel.sweep(1000.0)
    assert bench.owner.watched == set()
    for held in (True, True, False):
        bench.channel.hold_body(held)
        assert bench.owner.watched == {bench.channel}
    assert bench.transport.paused == [True, False]


def test_a_malformed_rest_of_a_streamed_body() -> None:
    bench = Bench()
    bench.give(b"POST /streamed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    failures: list[Failure] = []
    bench.requests[0].streamed = SimpleNamespace(fail=failures.append)
    bench.give(b"zz\r\n")
    assert str(failures[0].value) == "the body is malformed" and bench.written == b""
    bench.channel.sweep(1000.0 + CLOSE_TIMEOUT)
    assert bench.transport.aborted == 1
    plain = Bench()
    plain.give(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert plain.written == refusal(b"400 Bad Request") and len(plain.requests[0].lost) == 1


# -- deadlines


@pytest.mark.parametrize(
    ("parts", "seconds", "answer"),
    [
        ([], IDLE_TIMEOUT, b""), ([b"G"], HEAD_TIMEOUT, refusal(b"408 Request Timeout", b"")),
        ([b"\r\n"], IDLE_TIMEOUT, b""), ([b"\r\n", b"\r\nG"], HEAD_TIMEOUT, refusal(b"408 Request Timeout", b"")),
        ([post(5)], BODY_TIMEOUT, refusal(b"408 Request Timeout", b"")),
        ([post(5), b"abcd"], BODY_TIMEOUT, refusal(b"408 Request Timeout", b"")),
    ],
)  # fmt: skip
def test_deadlines(parts: list[bytes], seconds: float, answer: bytes) -> None:
    bench = Bench()
    bench.give(*parts)
    bench.owner.now = 1001.0
    bench.give(*[b"E"] * (parts == [b"G"]))
    bench.channel.sweep(1000.0 + seconds - 0.5)
    assert (bench.written, bench.transport.closed) == (b"", 0)
    bench.owner.now = 1000.0 + seconds
    bench.channel.sweep(1000.0 + seconds)
    assert (bench.written, bench.transport.closed) == (answer, 1)
    assert bench.counted == ({"timeout": 1} if answer else {})
    bench.channel.sweep(1000.0 + seconds + CLOSE_TIMEOUT - 0.5)
    assert bench.transport.aborted == 0
    bench.channel.sweep(1000.0 + seconds + CLOSE_TIMEOUT)
    assert bench.transport.aborted == 1


def test_an_answer_has_no_deadline_and_after_it_the_connection_is_idle() -> None:
    bench = Bench()
    bench.give(post(5), b"abcde")
    bench.channel.sweep(1e6)
    assert bench.owner.watched == set() and bench.transport.closed == 0
    bench.owner.now = 1e6
    bench.done()
    assert bench.owner.watched == {bench.channel}
    bench.channel.sweep(1e6 + IDLE_TIMEOUT - 0.5)
    assert bench.transport.closed == 0
    bench.channel.sweep(1e6 + IDLE_TIMEOUT)
    assert (bench.transport.closed, bench.written) == (1, b"")


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_a_client_that_leaves_while_it_is_not_read_is_noticed(
    left: bool, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "has_left", lambda transport: left)
    bench = Bench()
    bench.give(GET)
    bench.channel.sweep(1000.0)
    if early:
        bench.give(b"G")
    bench.channel.sweep(1001.0)
    assert bench.transport.aborted == (left and early)
    assert bench.owner.watched == ({bench.channel} if early else set())


# -- ends


def test_how_a_connection_ends_when_the_server_stops() -> None:
    idle = Bench()
    assert idle.channel.quiet_since == 1000.0
    idle.channel.close_when_idle()
    assert idle.transport.closed == 1
    idle.give(GET)
    assert idle.requests == []
    begun = Bench()
    begun.give(b"G")
    assert begun.channel.quiet_since == float("-inf")
    begun.channel.close_when_idle()
    assert begun.transport.closed == 0
    answering = Bench()
    answering.give(GET)
    assert answering.channel.quiet_since == float("-inf")
    answering.channel.close_when_idle()
    assert answering.requests[0].closes and answering.transport.closed == 0
    answering.done()
    assert answering.transport.closed == 1
    receiving = Bench()
    receiving.give(post(5))
    receiving.channel.close_when_idle()
    assert not receiving.requests[0].closes
    receiving.owner.closing = True
    receiving.give(b"abcde")
    assert receiving.requests[0].closes
    receiving.done()
    assert receiving.transport.closed == 1


def test_a_lost_connection_is_reported_to_its_request() -> None:
    bench = Bench()
    bench.give(GET)
    reason = Failure(ConnectionDone())
    for _ in range(2):
        bench.channel.connectionLost(reason)
    assert bench.requests[0].lost == [reason] and bench.channel.request is None
    bench.give(GET)
    assert len(bench.requests) == 1


# -- long answers


class Producer:
    def __init__(self, parts: int, fails: bool = False) -> None:
        self.parts, self.fails, self.stopped = parts, fails, 0
        self.pull: Any = None
        self.asked = 0

    def resumeProducing(self) -> None:
        self.asked += 1
        if self.fails:
            raise ValueError("a fault")
        if self.asked == self.parts:
            self.pull.forget()

    def stopProducing(self) -> None:
        self.stopped += 1


class Turn:
    def __init__(self) -> None:
        self.is_over = False
        self.waiting: list[Any] = []

    def over(self) -> bool:
        return self.is_over

    def run(self, work: Any, flow: Any) -> None:
        work()

    def wait(self, work: Any, flow: Any) -> None:
        self.waiting.append(work)


@pytest.mark.parametrize("over", [True, False])
def test_the_parts_of_a_long_answer_are_asked_for_until_the_turn_is_over(over: bool) -> None:
    turn, producer = Turn(), Producer(3)
    turn.is_over = over
    pull = producer.pull = Pull(producer, Transport(), turn)  # type: ignore[arg-type]
    pull.resumeProducing()
    if not over:
        assert (producer.asked, turn.waiting) == (3, [])
        return
    for asked in (1, 2):
        assert (producer.asked, len(turn.waiting)) == (asked, 1)
        pull.resumeProducing()
        assert (producer.asked, len(turn.waiting)) == (asked, 1), "it waits for its turn already"
        turn.waiting.pop()()
    assert (producer.asked, turn.waiting) == (3, [])
    pull.resumeProducing()
    pull.stopProducing()
    assert (producer.asked, producer.stopped) == (3, 0)


def test_a_long_answer_waits_for_its_client() -> None:
    turn, producer = Turn(), Producer(3)
    turn.is_over = True
    pull = producer.pull = Pull(producer, Transport(), turn)  # type: ignore[arg-type]
    pull.pauseProducing()
    pull._send()
    assert (producer.asked, turn.waiting) == (0, [])
    pull.resumeProducing()
    pull.pauseProducing()
    turn.waiting.pop()()
    assert (producer.asked, turn.waiting) == (1, [])
    pull.stopProducing()
    pull.resumeProducing()
    assert (producer.asked, producer.stopped, turn.waiting) == (1, 1, [])


def test_a_long_answer_that_fails_costs_its_connection() -> None:
    turn, producer, transport = Turn(), Producer(3, fails=True), Transport()
    Pull(producer, transport, turn).resumeProducing()  # type: ignore[arg-type]
    assert (producer.asked, transport.aborted, turn.waiting) == (1, 1, [])
