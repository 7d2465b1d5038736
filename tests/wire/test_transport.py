"""The body of an answer, piece by piece."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from kapi.wire.transport import MAX_BUFFERED, Response, Stream, StreamClosed


class Bench:
    def __init__(self) -> None:
        self.flow: list[bool] = []
        self.aborts = 0
        self.stream = Stream(self.flow.append, self.abort)

    def abort(self) -> None:
        self.aborts += 1

    def read(self) -> list[Any]:
        """What the next read gives, once it does."""
        found: list[Any] = []
        Deferred.fromCoroutine(self.stream.read()).addCallbacks(found.append, lambda why: found.append(why.type))
        return found


def test_a_reader_gets_what_has_come_and_waits_for_more() -> None:
    bench = Bench()
    for piece in (b"a", b"bc"):
        bench.stream.feed(piece)
    assert bench.read() == [b"abc"]
    waiting = bench.read()
    assert waiting == []
    bench.stream.feed(b"d")
    assert waiting == [b"d"] and bench.flow == []


@pytest.mark.parametrize(("size", "paused"), [(MAX_BUFFERED, False), (MAX_BUFFERED + 1, True)])
@pytest.mark.parametrize("ends", [True, False])
def test_a_sender_waits_for_its_reader(size: int, paused: bool, ends: bool) -> None:
    bench = Bench()
    bench.stream.feed(b"x" * (size - 1))
    assert bench.flow == []
    bench.stream.feed(b"x")
    assert bench.flow == [True] * paused
    bench.stream.feed(b"x" * 10)
    assert bench.flow == [True], "once"
    if ends:
        bench.stream.finish()
    assert len(bench.read()[0]) == size + 10
    assert bench.flow == ([True] if ends else [True, False])
    bench.stream.feed(b"x" * MAX_BUFFERED)
    assert len(bench.flow) == (1 if ends else 2)


@pytest.mark.parametrize(("why", "end"), [(None, b""), (Failure(ConnectionLost()), ConnectionLost)])
def test_the_end_comes_after_all_pieces_and_stays(why: Failure | None, end: Any) -> None:
    bench = Bench()
    bench.stream.feed(b"a")
    bench.stream.finish(why)
    bench.stream.finish(Failure(ValueError("another")))
    bench.stream.feed(b"late")
    assert [bench.read() for _ in range(3)] == [[b"a"], [end], [end]]
    bench.stream.close()
    assert bench.aborts == 0, "there is nothing to end"


def test_a_stream_that_is_closed_here() -> None:
    bench = Bench()
    waiting = bench.read()
    bench.stream.close()
    bench.stream.close()
    assert (waiting, bench.aborts) == ([StreamClosed], 1)
    bench = Bench()
    bench.stream.feed(b"a")
    bench.stream.close()
    assert bench.read() == [StreamClosed], "what was not read is dropped"


def test_a_reader_may_give_up() -> None:
    bench = Bench()
    waiting = Deferred.fromCoroutine(bench.stream.read())
    waiting.addErrback(lambda why: None)
    waiting.cancel()
    bench.stream.feed(b"a")
    assert bench.read() == [b"a"]


def test_the_first_header_of_a_name_counts() -> None:
    answer = Response(200, Headers({b"a": [b"one", b"two"]}))
    assert (answer.header(b"A"), answer.header(b"b"), answer.body, answer.stream) == ("one", "", b"", None)
