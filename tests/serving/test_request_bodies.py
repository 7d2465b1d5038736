"""The body of a request while it comes: kept, counted, dropped, or given on before it is whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from kapi.request.pending import MIN_COUNTED_BYTES, Pending
from kapi.serving.request import _MAX_DRAINED_BYTES, MAX_BODY, APIRequest


class Channel:
    def __init__(self) -> None:
        self.transport = StringTransport()
        self.aborted = 0
        self.streamed: list[int] = []
        self.held: list[bool] = []
        self.taken: list[int] = []

    def abortConnection(self) -> None:
        self.aborted += 1

    def stream_body(self, request: APIRequest, size: int) -> None:
        self.streamed.append(size)

    def hold_body(self, held: bool) -> None:
        self.held.append(held)

    def body_taken(self, size: int) -> None:
        self.taken.append(size)


class Bench:
    """A request whose head has come."""

    def __init__(self, limit: int = 0) -> None:
        self.clock = Clock()
        self.pending = Pending(self.clock.seconds, limit)
        self.served: list[APIRequest] = []
        self.channel = Channel()
        self.request = APIRequest(self.channel)
        self.request.runner = SimpleNamespace(  # type: ignore[assignment]
            pending=self.pending, reactor=self.clock, serve=self.served.append
        )
        self.request.gotLength(None)

    def give(self, *sizes: int) -> None:
        for size in sizes:
            self.request.handleContentChunk(b"x" * size)

    @property
    def kept(self) -> int:
        return len(self.request.content.getvalue())  # type: ignore[union-attr]

    def receive(self) -> None:
        self.request.requestReceived(b"POST", b"/a?b=c", b"HTTP/1.1")


def test_a_body_is_kept_until_the_request_is_served() -> None:
    bench = Bench()
    bench.give(3, 4)
    assert (bench.kept, bench.request.body_size, bench.served) == (7, 7, [])
    bench.receive()
    request = bench.request
    assert bench.served == [request] and request.content.getvalue() == b"x" * 7  # type: ignore[union-attr]
    assert (request.method, request.uri, request.path, request.args) == (b"POST", b"/a?b=c", b"/a", {})


@pytest.mark.parametrize(("size", "counted"), [(MIN_COUNTED_BYTES, False), (MIN_COUNTED_BYTES + 1, True)])
def test_a_large_body_is_counted_while_it_waits(size: int, counted: bool) -> None:
    bench = Bench()
    bench.give(size - 1, 1)
    assert bench.pending.size == (size if counted else 0)
    assert (bench.request in bench.pending._holders) is counted
    bench.receive()
    assert bench.pending._holders == {}
    bench.request.shrink()
    assert bench.pending.size == 0


def test_a_body_is_counted_with_a_large_head() -> None:
    bench = Bench()
    bench.request.count_head(1000, False)
    assert (bench.pending.size, bench.pending._holders) == (1000, {})
    bench.request.count_head(2000, True)
    bench.give(10)
    assert bench.pending.size == 2000 and bench.request in bench.pending._holders
    bench.give(MIN_COUNTED_BYTES)
    assert bench.pending.size == 2000 + 10 + MIN_COUNTED_BYTES


@pytest.mark.parametrize(("over", "large"), [(-1, False), (0, False), (1, True)])
def test_of_a_body_that_is_too_large_no_more_is_kept(over: int, large: bool) -> None:
    bench = Bench()
    first = MAX_BODY - 1000
    bench.give(first, 1000 + over)
    assert bench.request.body_too_large is large
    assert bench.kept == (first if large else MAX_BODY + over)
    assert bench.pending.size == (first if large else MAX_BODY + over)
    bench.request.body_size = _MAX_DRAINED_BYTES - 1
    bench.give(1)
    assert bench.channel.aborted == 0
    bench.give(1)
    assert bench.channel.aborted == 1


def test_a_body_without_memory_for_it_is_dropped_and_read_to_its_end() -> None:
    bench = Bench(limit=MIN_COUNTED_BYTES + 1000)
    bench.request.count_head(100, True)
    bench.give(MIN_COUNTED_BYTES + 900)
    assert (bench.request.body_refused, bench.pending.refused) == (False, 0)
    bench.give(1)
    assert not bench.request.body_refused, "it is not yet more than there may be"
    for _ in range(2):
        bench.give(1)
        assert (bench.request.body_refused, bench.pending.refused, bench.kept) == (True, 1, 0)
        assert bench.pending.size == 100
    bench.request.body_size = _MAX_DRAINED_BYTES - 1
    bench.give(1)
    assert bench.channel.aborted == 0
    bench.give(1)
    assert bench.channel.aborted == 1


def test_a_body_without_progress_gives_its_memory_to_others() -> None:
    bench = Bench(limit=MIN_COUNTED_BYTES + 1000)
    slow = APIRequest(Channel())
    slow.runner = bench.request.runner
    slow.gotLength(None)
    slow.handleContentChunk(b"x" * (MIN_COUNTED_BYTES + 100))
    bench.clock.advance(100)
    bench.give(MIN_COUNTED_BYTES + 900, 1)
    assert slow.channel.aborted == 1  # type: ignore[union-attr]
    assert (slow.content.getvalue(), bench.request.body_refused) == (b"", False)  # type: ignore[union-attr]
    assert bench.pending.size == MIN_COUNTED_BYTES + 901


# -- bodies that are given on


def test_a_slow_body_is_given_on_before_it_is_whole() -> None:
    bench = Bench()
    request, channel = bench.request, bench.channel
    request.stream_soon(b"POST", b"/a?b", b"HTTP/1.1", 10)
    bench.give(3)
    bench.clock.advance(0.049)
    assert bench.served == [] and request.streamed is None
    bench.clock.advance(0.002)
    assert bench.served == [request] and channel.streamed == [3]
    assert request.streamed is not None and bench.kept == 0
    assert (request.method, request.uri, request.path, request.clientproto) == (b"POST", b"/a?b", b"/a", b"HTTP/1.1")
    bench.give(4)
    assert (bench.kept, request.body_size) == (0, 7)
    ended: list[bool] = []
    request.streamed = SimpleNamespace(end=lambda: ended.append(True))  # type: ignore[assignment]
    bench.receive()
    assert ended == [True] and bench.served == [request], "it is served once"


@pytest.mark.parametrize(("size", "at_once"), [(MIN_COUNTED_BYTES, False), (MIN_COUNTED_BYTES + 1, True)])
def test_a_large_body_is_given_on_without_a_delay(size: int, at_once: bool) -> None:
    bench = Bench()
    bench.request.stream_soon(b"POST", b"/", b"HTTP/1.1", None)
    bench.give(size)
    assert bench.served == [], "not while it is being read"
    bench.clock.advance(0)
    assert bool(bench.served) is at_once
    assert bench.pending.size == (size if at_once else 0)
    assert bench.channel.held == ([True] if at_once else [])


@pytest.mark.parametrize("why", ["whole", "refused", "too large", "gone"])
def test_a_body_that_is_not_given_on(why: str) -> None:
    bench = Bench(limit=1 if why == "refused" else 0)
    request = bench.request
    request.stream_soon(b"POST", b"/", b"HTTP/1.1", None)
    if why == "whole":
        bench.receive()
    elif why == "refused":
        bench.give(MIN_COUNTED_BYTES + 1, 1)
    elif why == "too large":
        bench.give(MAX_BODY, 1)
    else:
        request.connectionLost(Failure(ConnectionLost()))
    bench.clock.advance(1)
    assert (request.streamed, bench.channel.streamed) == (None, [])
    assert len(bench.served) == (why == "whole") and bench.clock.getDelayedCalls() == []


def test_what_waits_of_a_body_that_is_given_on_is_counted_and_holds_its_client() -> None:
    bench = Bench()
    request, channel = bench.request, bench.channel
    request.body_waits(0)
    assert (channel.held, bench.pending._holders) == ([False], {})
    for size in (100, 50):
        request.body_waits(size)
        assert bench.pending.size == size and request in bench.pending._holders
    request.body_taken(7)
    request.body_waits(0)
    assert (bench.pending.size, bench.pending._holders) == (0, {})
    assert (channel.held, channel.taken) == ([False, True, True, False], [7])
    request.channel = None  # it is answered
    request.body_waits(5)
    request.body_taken(5)
    assert bench.pending.size == 5 and len(channel.held) == 4 and channel.taken == [7]


def test_the_rest_of_a_body_is_not_needed_once_the_answer_is_complete() -> None:
    bench = Bench()
    bench.request.end_streaming()
    bench.request.stream_soon(b"POST", b"/", b"HTTP/1.1", None)
    bench.clock.advance(1)
    calls: list[Any] = []
    bench.request.streamed = SimpleNamespace(  # type: ignore[assignment]
        fail=lambda failure: calls.append(str(failure.value)), stop=lambda: calls.append("stop")
    )
    bench.request.end_streaming()
    assert calls[-1] == "stop" and "the answer is over" in calls[0]


def test_all_who_wait_for_a_client_are_notified_when_it_leaves() -> None:
    bench = Bench()
    request, calls = bench.request, []  # type: ignore[var-annotated]
    bench.give(MIN_COUNTED_BYTES + 1)
    request.waiting = SimpleNamespace(client_gone=lambda: calls.append("gone"))  # type: ignore[assignment]
    request.streamed = SimpleNamespace(  # type: ignore[assignment]
        fail=lambda failure: calls.append(failure), stop=lambda: calls.append("stop")
    )
    bench.channel.unregisterProducer = lambda: calls.append("unregister")  # type: ignore[attr-defined]
    request.producer = SimpleNamespace(stopProducing=lambda: calls.append("producer"))
    reason = Failure(ConnectionLost())
    assert not request.gone
    request.connectionLost(reason)
    assert calls == [reason, "stop", "gone", "unregister", "producer"] and request.gone
    assert bench.pending._holders == {} and request.waiting is None
