"""Heads and bodies of answers at their limits, and how their readers and senders are made to wait."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from kapi.wire.answer import MAX_HEAD, Answer, BadAnswer, Body, content_length, next_head, read_head
from kapi.wire.connection import STALL_SECONDS, Abandoned, Connection, Stalled, Upload


@pytest.mark.parametrize(
    ("values", "length"),
    [
        (None, None), ([b"0"], 0), ([b"007"], 7), ([b"5", b"5"], 5), ([b"9223372036854775807"], (1 << 63) - 1),
        ([b"0" * 30 + b"1"], 1),
    ],
)  # fmt: skip
def test_lengths(values: list[bytes] | None, length: int | None) -> None:
    assert content_length(values) == length


@pytest.mark.parametrize(
    "values",
    [[b""], [b"-1"], [b"+1"], [b"1 "], [b"a"], [b"5", b"6"], [b"5", b"05"], [b"9223372036854775808"], [b"1" * 20]],
)
def test_what_is_no_length(values: list[bytes]) -> None:
    with pytest.raises(BadAnswer, match="^bad Content-Length$"):
        content_length(values)


@pytest.mark.parametrize(
    ("raw", "code", "headers", "rest"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest", 200, {b"A": [b"b"]}, b"rest"),
        (b"HTTP/1.0 404\nA:b\nA: \t c \n\n", 404, {b"A": [b"b", b"c"]}, b""),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\td\r\nE: f\r\n\r\n", 200, {b"A": [b"b c d"], b"E": [b"f"]}, b""),
        (b"HTTP/1.1 099 \r\n\r\n", 99, {}, b""),
    ],
)
def test_heads(raw: bytes, code: int, headers: dict[bytes, list[bytes]], rest: bytes) -> None:
    answer, left = next_head(raw)
    assert answer is not None
    assert (answer.code, dict(answer.headers.getAllRawHeaders()), left) == (code, headers, rest)
    assert answer.version == (b"HTTP", 1, int(raw[7:8]))
    for end in range(len(raw) - len(rest)):
        assert next_head(raw[:end]) == (None, raw[:end])


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"HTTP/2.0 200 OK", 'malformed HTTP response "HTTP/2.0 200 OK"'),
        (b"HTTP/1.1 20 OK", 'malformed HTTP response "HTTP/1.1 20 OK"'),
        (b"HTTP/1.1 2000 OK", 'malformed HTTP response "HTTP/1.1 2000 OK"'),
        (b"HTTP/1.1 2x0 OK", 'malformed HTTP response "HTTP/1.1 2x0 OK"'),
        (b"HTTP/1.1 " + b"x" * 300, f'malformed HTTP response "HTTP/1.1 {"x" * 191}"'),
        (b"HTTP/1.1 200 OK\r\nA", "malformed MIME header line: A"),
        (b"HTTP/1.1 200 OK\r\n: b", "malformed MIME header line: : b"),
        (b"HTTP/1.1 200 OK\r\nA : b", "malformed MIME header line: A : b"),
        (b"HTTP/1.1 200 OK\r\n A: b", "malformed MIME header initial line:  A: b"),
    ],
)
def test_what_is_no_head(head: bytes, why: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        read_head(head)
    assert str(caught.value) == why


def test_a_head_has_a_limit() -> None:
    raw = b"HTTP/1.1 200 OK\r\nA: " + b"x" * MAX_HEAD
    assert next_head(raw[:MAX_HEAD]) == (None, raw[:MAX_HEAD])
    with pytest.raises(BadAnswer, match=f"^server response headers exceeded {MAX_HEAD} bytes$"):
        next_head(raw[: MAX_HEAD + 1])


def answer(code: int = 200, **headers: str) -> Answer:
    fields = {name.replace("_", "-").encode(): [value.encode()] for name, value in headers.items()}
    return Answer((b"HTTP", 1, 1), code, b"", Headers(fields))


@pytest.mark.parametrize(
    ("head", "bodiless", "length", "until_end"),
    [
        (answer(), False, None, True), (answer(content_length="5"), False, 5, False),
        (answer(content_length="5"), True, 0, False),
        (answer(204, content_length="5"), False, 0, False), (answer(304, content_length="5"), False, 0, False),
        (answer(transfer_encoding="Chunked"), False, None, False), (answer(205, content_length="5"), False, 5, False),
        (answer(transfer_encoding="chunked"), True, 0, False), (answer(204, transfer_encoding="gzip"), False, 0, False),
    ],
)  # fmt: skip
def test_how_long_a_body_is(head: Answer, bodiless: bool, length: int | None, until_end: bool) -> None:
    body = Body(head, lambda data: None, lambda rest: None, bodiless=bodiless)
    assert (body.length, body.ends_with_connection) == (length, until_end)


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "identity"])
def test_codings_that_nobody_knows(coding: str) -> None:
    with pytest.raises(BadAnswer, match="^unsupported transfer encoding$"):
        Body(answer(transfer_encoding=coding), lambda data: None, lambda rest: None)


@pytest.mark.parametrize(
    ("head", "data", "found", "rests"),
    [
        (answer(content_length="3"), b"abcde", b"abc", [b"de"]), (answer(content_length="3"), b"abc", b"abc", [b""]),
        (answer(content_length="3"), b"ab", b"ab", []), (answer(content_length="0"), b"", b"", [b""]),
        (answer(), b"abc", b"abc", []),
        (answer(transfer_encoding="chunked"), b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\nde", b"abc", [b"de"]),
        (answer(transfer_encoding="chunked"), b"2\r\nab\r\n1\r\nc\r\n0\r\n", b"abc", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [True, False])
def test_where_a_body_ends(head: Answer, data: bytes, found: bytes, rests: list[bytes], whole: bool) -> None:
    pieces: list[bytes] = []
    ends: list[bytes] = []
    body = Body(head, pieces.append, ends.append)
    for part in [data] if whole else [data[at : at + 1] for at in range(len(data))] or [b""]:
        if not ends:
            body.read(part)
    assert b"".join(pieces) == found and b"" not in pieces
    assert len(ends) == len(rests) and (not whole or (ends == rests and len(pieces) == bool(found)))


# -- readers


class Sender:
    """The transport of a connection."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pauseProducing(self) -> None:
        self.calls.append("pause")

    def resumeProducing(self) -> None:
        self.calls.append("resume")


def begun() -> tuple[Answer, Sender]:
    found, sender = answer(), Sender()
    found.begin(sender, lambda: sender.calls.append("stop"))  # type: ignore[arg-type]
    return found, sender


@pytest.mark.parametrize("paused", [True, False])
def test_a_reader_that_comes_late_gets_what_has_waited(paused: bool) -> None:
    found, sender = begun()
    if paused:
        found.flow(wait=True)
    for piece in (b"a", b"b"):
        found.feed(piece)
    got: list[Any] = []
    found.read(got.append, got.append)
    assert got == [b"a", b"b"] and found.has_reader
    assert sender.calls == (["pause", "resume"] if paused else [])
    found.pauseProducing()
    found.resumeProducing()
    assert sender.calls[-2:] == ["pause", "resume"]
    found.feed(b"c")
    found.finish()
    found.feed(b"late")
    found.finish(Failure(ValueError()))
    assert got == [b"a", b"b", b"c", None]
    found.pauseProducing()
    assert len(sender.calls) == (4 if paused else 2), "the connection may serve another"


def test_a_reader_that_pauses_at_once_is_not_given_more() -> None:
    found, sender = begun()
    found.flow(wait=True)
    found.feed(b"a")
    found.read(lambda data: found.pauseProducing(), lambda why: None)
    assert sender.calls == ["pause", "pause"]
    found.finish()
    assert sender.calls == ["pause", "pause", "resume"]


@pytest.mark.parametrize("why", [None, Failure(ValueError("cut"))])
def test_a_body_that_is_over_is_given_to_a_late_reader(why: Failure | None) -> None:
    found, _ = begun()
    found.feed(b"a")
    found.finish(why)
    got: list[Any] = []
    found.read(got.append, got.append)
    assert got == [b"a", why]


@pytest.mark.parametrize("over", [True, False])
def test_a_body_that_is_not_needed_ends_its_connection(over: bool) -> None:
    found, sender = begun()
    got: list[Any] = []
    found.read(got.append, got.append)
    if over:
        found.finish()
    for _ in range(2):
        found.abort()
    found.feed(b"late")
    found.finish()
    assert got == [None] * over and sender.calls == ([] if over else ["stop"])


def test_a_reader_that_cannot_decode_ends_the_connection() -> None:
    found, sender = begun()
    found.feed(b"a")
    found.feed(b"b")
    got: list[Any] = []

    def refuse(data: bytes) -> None:
        got.append(data)
        raise BadAnswer("no gzip")

    found.read(refuse, lambda why: got.append(why and str(why.value)))
    assert got == [b"a", "no gzip"] and sender.calls == ["stop"]


# -- one connection


class Owner:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def free(self, connection: Connection) -> None:
        self.calls.append("free")

    def lost(self, connection: Connection) -> None:
        self.calls.append("lost")


class Bench:
    """A request under way."""

    def __init__(self, bodiless: bool = False) -> None:
        self.owner, self.transport = Owner(), StringTransport()
        self.connection = Connection(self.owner)
        self.connection.makeConnection(self.transport)  # type: ignore[arg-type]
        self.answers: list[Any] = []
        answered: Deferred[Answer] = Deferred()
        answered.addCallbacks(self.answered, lambda why: self.answers.append(str(why.value)))
        self.got: list[Any] = []
        self.connection.ask(b"GET", answered, bodiless)

    def answered(self, found: Answer) -> None:
        self.answers.append(found.code)
        found.read(self.got.append, lambda why: self.got.append(why and str(why.value)))

    @property
    def ends(self) -> tuple[bool, bool]:
        return self.transport.disconnecting, self.transport.disconnected


@pytest.mark.parametrize(
    ("head", "rest", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", b"", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive, Close\r\n\r\na", b"", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", b"x", False),
    ],
)
def test_a_connection_is_kept_unless_something_speaks_against_it(head: bytes, rest: bytes, kept: bool) -> None:
    bench = Bench()
    bench.connection.dataReceived(head + rest)
    assert bench.answers == [200] and bench.got == [b"a", None]
    assert bench.owner.calls == (["free"] if kept else []) and bench.ends == (not kept, False)


def test_an_answer_without_a_body_is_whole_with_its_head() -> None:
    bench = Bench(bodiless=True)
    bench.connection.dataReceived(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    assert (bench.got, bench.owner.calls) == ([None], ["free"])
    bench.connection.dataReceived(b"x")
    assert bench.transport.disconnected, "nobody has asked"


@pytest.mark.parametrize(
    ("data", "clean", "answers", "got"),
    [
        (b"", True, ["Connection was closed cleanly."], []),
        (b"HT", True, ["unexpected EOF"], []),
        (b"HTTP/1.1 200 OK\r\n\r\nab", True, [200], [b"ab", None]),
        (b"HTTP/1.1 200 OK\r\n\r\nab", False, [200], [b"ab", "unexpected EOF"]),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", True, [200], [b"ab", "unexpected EOF"]),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", True, [200], [b"ab", "unexpected EOF"]),
    ],
)
def test_a_lost_connection(data: bytes, clean: bool, answers: list[Any], got: list[Any]) -> None:
    bench = Bench()
    if data:
        bench.connection.dataReceived(data)
    bench.connection.connectionLost(Failure(ConnectionDone() if clean else ConnectionLost()))
    assert (bench.answers, bench.got, bench.owner.calls) == (answers, got, ["lost"])
    bench.connection.connectionLost(Failure(ConnectionDone()))
    assert len(bench.got) == len(got)


def test_interim_answers_are_bounded_together() -> None:
    bench = Bench()
    interim = b"HTTP/1.1 103 Early\r\nA: " + b"x" * (MAX_HEAD // 4 - 27) + b"\r\n\r\n"
    assert len(interim) == MAX_HEAD // 4
    for _ in range(4):
        bench.connection.dataReceived(interim)
    assert bench.answers == []
    bench.connection.dataReceived(b"HTTP/1.1 103 Early\r\n\r\n")
    assert bench.answers == [f"server response headers exceeded {MAX_HEAD} bytes"] and bench.transport.disconnected


def test_an_answer_without_a_reader_waits() -> None:
    bench = Bench()
    bench.connection._answered = Deferred()
    bench.connection.dataReceived(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
    assert bench.transport.producerState == "paused"


# -- bodies of requests that still arrive


class Arriving:
    """A body, as its connection gives it."""

    length: int | None = None

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.give: Any = None
        self.end: Any = None

    def read(self, give: Any, end: Any) -> None:
        self.give, self.end = give, end

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.mark.parametrize(("chunked", "sent"), [(True, b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"), (False, b"abc")])
def test_a_body_is_sent_as_it_arrives(chunked: bool, sent: bytes) -> None:
    transport, body, clock = StringTransport(), Arriving(), Clock()
    failures: list[Failure] = []
    upload = Upload(transport, body, failures.append, clock, chunked=chunked)  # type: ignore[arg-type]
    upload.begin()
    assert transport.producer is upload and transport.streaming
    body.give(b"ab")
    upload.pauseProducing()
    upload.pauseProducing()
    clock.advance(STALL_SECONDS - 0.5)
    upload.resumeProducing()
    clock.advance(STALL_SECONDS)
    body.give(b"c")
    body.end(None)
    upload.stop()
    assert (transport.value(), body.calls) == (sent, ["pause", "pause", "resume", "stop"])
    assert upload.over and transport.producer is None and failures == []


@pytest.mark.parametrize("paused", [True, False])
def test_a_body_that_does_not_come_or_is_not_read(paused: bool) -> None:
    transport, body, clock = StringTransport(), Arriving(), Clock()
    failures: list[Failure] = []
    upload = Upload(transport, body, failures.append, clock, chunked=True)  # type: ignore[arg-type]
    upload.begin()
    if paused:
        upload.pauseProducing()
        clock.advance(STALL_SECONDS)
        assert [(failure.type, str(failure.value)) for failure in failures] == [
            (Stalled, "the server does not read the request")
        ]
    else:
        body.end(Failure(ValueError("gone")))
        assert [(failure.type, str(failure.value)) for failure in failures] == [
            (Abandoned, "the body did not come: gone")
        ]
    upload.stop()
    assert transport.value() == b"" and clock.getDelayedCalls() == []
