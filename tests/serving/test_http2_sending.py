"""What the sending side of an HTTP/2 connection writes, and when: windows, turns, producers, a client that does not read."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kapi.process.shares import Flow, Level
from kapi.request.pending import Pending
from kapi.serving.http2_sending import Sending
from kapi.serving.http2_stream import Stream
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.fields import NO_TABLE
from kapi.wire.http2.frames import Code, ConnectionFault, StreamFault

DEFAULT, FRAME, PIECE = wire.DEFAULT_WINDOW, wire.DEFAULT_FRAME, 128 * 1024
END = wire.END_STREAM


class Turn:
    """The turns of the reactor, one after the other; each is over after its first frames."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.flows: list[Flow] = []
        self.is_over = True

    def wait(self, work: Callable[[], None], flow: Flow) -> None:
        self.waiting.append(work)
        self.flows.append(flow)

    def over(self) -> bool:
        return self.is_over

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for work in waiting:
            work()


class Bench:
    """A connection with the streams 1, 3 and 5, whose transport keeps what is written."""

    def __init__(self, *, gathers: bool = False) -> None:
        self.writes: list[bytes] = []
        self.aborted = False
        self.ended: list[int] = []
        self.resets: list[int] = []
        self.turn = Turn()
        self.gathered: list[Any] | None = [] if gathers else None
        self.pending = Pending(lambda: 0.0)
        runner = SimpleNamespace(pending=self.pending, unflushed=self.gathered)
        self.owner = SimpleNamespace(runner=runner)
        self.transport: Any = SimpleNamespace(
            flow=Flow(Level("a")), write=self.writes.append, abortConnection=self.abort
        )
        self.streams: dict[int, Stream] = {}
        self.sending = Sending(self.turn, self.transport, self)  # type: ignore[arg-type]
        for number in (1, 3, 5):
            self.streams[number] = Stream(self, number, DEFAULT, DEFAULT)  # type: ignore[arg-type]
        self.one, self.three, self.five = self.streams.values()

    def abort(self) -> None:
        self.aborted = True

    def sent(self, stream: Stream) -> None:
        self.ended.append(stream.number)
        del self.streams[stream.number]

    def reset(self, number: int) -> None:
        self.resets.append(number)

    def frames(self) -> list[tuple[int, int, int, int]]:
        """(type, flags, stream, length) of the frames since the last call."""
        data, found = b"".join(self.writes), []
        self.writes.clear()
        while data:
            high, low, kind, flags, number = wire.unpack_head(data)
            length = high << 8 | low
            found.append((kind, flags, number, length))
            data = data[wire.HEAD_SIZE + length :]
        return found

    def sizes(self) -> dict[int, int]:
        """Bytes of DATA by stream since the last call."""
        found: dict[int, int] = {}
        for kind, _, number, length in self.frames():
            if kind == wire.DATA:
                found[number] = found.get(number, 0) + length
        return found


def headers(number: int, size: int, flags: int = 0) -> tuple[int, int, int, int]:
    return wire.HEADERS, flags | wire.END_HEADERS, number, size


def data(number: int, size: int, flags: int = 0) -> tuple[int, int, int, int]:
    return wire.DATA, flags, number, size


@pytest.mark.parametrize("size", [0, 1, FRAME, FRAME + 1, 2 * FRAME, DEFAULT])
@pytest.mark.parametrize("first", [True, False])
def test_a_whole_answer_in_as_few_frames_as_it_needs(size: int, first: bool) -> None:
    bench = Bench()
    extra = len(NO_TABLE)
    if not first:
        bench.sending.whole(bench.three, b"h", b"")
        assert bench.frames() == [headers(3, 1 + extra, END)]
        extra = 0
    bench.sending.whole(bench.one, b"block", b"x" * size)
    full, rest = divmod(size, FRAME)
    bodies = [data(1, FRAME)] * full + [data(1, rest)] * bool(rest)
    if bodies:
        bodies[-1] = data(1, bodies[-1][3], END)
    assert bench.frames() == [headers(1, 5 + extra, 0 if size else END), *bodies]
    assert (bench.sending.window, bench.ended[-1], bench.one.ended) == (DEFAULT - size, 1, True)


@pytest.mark.parametrize("size", [FRAME - 1, FRAME, FRAME + 1, 2 * FRAME + 1])
def test_a_long_header_block_goes_on_in_further_frames(size: int) -> None:
    bench = Bench()
    bench.sending.whole(bench.three, b"h", b"")
    bench.frames()
    bench.sending.whole(bench.one, b"b" * size, b"x")
    kinds = [(kind, length) for kind, _, _, length in bench.frames()]
    more = [(wire.CONTINUATION, min(FRAME, size - at)) for at in range(FRAME, size, FRAME)]
    assert kinds == [(wire.HEADERS, min(size, FRAME)), *more, (wire.DATA, 1)]


@pytest.mark.parametrize("what", ["connection", "stream", "blocked", "piece"])
@pytest.mark.parametrize("whole", [True, False])
def test_what_does_not_fit_waits_for_its_turn(what: str, whole: bool) -> None:
    for over in (0, 1):
        bench = Bench()
        sending, stream = bench.sending, bench.one
        size = PIECE + over if what == "piece" else 1000
        sending.window = stream.window = 1_000_000
        if what == "connection":
            sending.window = size - over
        elif what == "stream":
            stream.window = size - over
        elif over and what == "blocked":
            sending.pause()
        if whole:
            sending.whole(stream, b"block", b"x" * size)
        else:
            sending.head(stream, b"block")
            sending.data(stream, b"x" * size)
            sending.end(stream)
        assert bool(bench.turn.waiting) is bool(over and what != "blocked")
        assert bench.ended == ([] if over else [1])
        assert bench.pending.size == (size if over else 0)
        found = bench.frames()
        if not over:
            assert sum(length for kind, _, _, length in found if kind == wire.DATA) == size
            continue
        assert found == ([] if what == "blocked" else [headers(1, 5 + len(NO_TABLE))])
        if whole:
            sending.end(stream)
        assert stream.ends and not stream.ended
        if what == "connection":
            bench.turn.run()
            sending.open_window(None, 1)
        elif what == "stream":
            bench.turn.run()
            sending.open_window(stream, 1)
        elif what == "blocked":
            sending.resume()
        while bench.turn.waiting:
            bench.turn.run()
        assert bench.ended == [1] and bench.pending.size == 0
        ends = [flags & END for kind, flags, _, _ in bench.frames() if kind == wire.DATA]
        assert ends[-1] and not any(ends[:-1])
        assert set(bench.turn.flows) == {bench.transport.flow}


def test_later_data_does_not_pass_what_waits() -> None:
    bench = Bench()
    sending, one = bench.sending, bench.one
    sending.pause()
    sending.head(one, b"block")
    sending.resume()
    sending.data(one, b"a" * 10)
    assert bench.writes == [] and one.block == b"block"
    sending.data(one, b"b" * 20)
    sending.end(one)
    bench.turn.run()
    assert bench.frames() == [headers(1, 5 + len(NO_TABLE)), data(1, 10), data(1, 20, END)]
    assert bench.ended == [1]


def test_an_answer_without_more_data_ends_with_an_empty_frame() -> None:
    bench = Bench()
    sending = bench.sending
    sending.head(bench.one, b"block")
    sending.end(bench.one)
    assert bench.frames() == [headers(1, 5 + len(NO_TABLE)), data(1, 0, END)]
    sending.pause()
    sending.head(bench.three, b"block")
    sending.end(bench.three)
    sending.interim(bench.five, b"100")
    assert bench.frames() == [headers(5, 3)], "an interim answer does not wait"
    sending.resume()
    bench.turn.run()
    assert bench.frames() == [headers(3, 5), data(3, 0, END)] and bench.ended == [1, 3]


def test_streams_take_turns_of_64_kib() -> None:
    bench = Bench()
    sending = bench.sending
    sending.window = 10_000_000
    for stream in bench.streams.values():
        stream.window = 1_000_000
        sending.data(stream, b"x" * 200_000)
    assert bench.sizes() == {}
    for sizes in ({1: 65536, 3: 65536}, {5: 65536, 1: 65536}, {3: 65536, 5: 65536}, {1: 65536, 3: 65536}):
        assert len(bench.turn.waiting) == 1
        bench.turn.run()
        assert bench.sizes() == sizes
    bench.turn.is_over = False
    bench.turn.run()
    assert bench.sizes() == {5: 200_000 - 2 * 65536, 1: 200_000 - 3 * 65536, 3: 200_000 - 3 * 65536}
    assert bench.turn.waiting == [] and bench.pending.size == 0


def test_streams_wait_in_order_for_the_connections_window() -> None:
    bench = Bench()
    sending = bench.sending
    sending.window = 100
    for stream in bench.streams.values():
        sending.data(stream, b"x" * 150)
    bench.turn.run()
    assert bench.sizes() == {1: 100} and bench.turn.waiting == []
    sending.open_window(bench.three, 5)
    assert bench.turn.waiting == [], "the connection's window is still closed"
    sending.open_window(None, 60)
    bench.turn.run()
    assert bench.sizes() == {1: 50, 3: 10}
    sending.forget(bench.five)
    sending.open_window(None, 1000)
    bench.turn.run()
    assert bench.sizes() == {3: 140}
    assert bench.pending.size == 0 and sending.window == 1000 - 140


def test_windows_have_a_limit() -> None:
    bench, most = Bench(), wire.MAX_WINDOW_BYTES
    bench.sending.open_window(None, most - DEFAULT)
    bench.sending.open_window(bench.one, most - DEFAULT)
    with pytest.raises(ConnectionFault) as caught:
        bench.sending.open_window(None, 1)
    with pytest.raises(StreamFault) as of_stream:
        bench.sending.open_window(bench.one, 1)
    assert caught.value.code is of_stream.value.code is Code.FLOW_CONTROL_ERROR and of_stream.value.stream == 1
    bench = Bench()
    bench.one.window += 1
    bench.sending.settings({wire.INITIAL_WINDOW_SIZE: most - 1})
    assert bench.one.window == most
    with pytest.raises(ConnectionFault) as caught:
        bench.sending.settings({wire.INITIAL_WINDOW_SIZE: most})
    assert caught.value.code is Code.FLOW_CONTROL_ERROR


def test_another_initial_window_changes_the_windows_of_open_streams() -> None:
    bench = Bench()
    sending = bench.sending
    sending.data(bench.one, b"x" * 60_000)
    bench.frames()
    for values in ({}, {wire.INITIAL_WINDOW_SIZE: DEFAULT}, {wire.MAX_FRAME_SIZE: 20_000}):
        sending.settings(values)
        assert (bench.one.window, bench.three.window, sending.initial_window) == (DEFAULT - 60_000, DEFAULT, DEFAULT)
    sending.settings({wire.INITIAL_WINDOW_SIZE: 1000})
    assert (bench.one.window, bench.three.window, sending.window) == (1000 - 60_000, 1000, DEFAULT - 60_000)
    sending.data(bench.one, b"y")
    assert bench.turn.waiting == [] and sending.initial_window == 1000
    sending.settings({wire.INITIAL_WINDOW_SIZE: 60_000})
    assert bench.turn.waiting == [], "it has sent as much as it may"
    sending.settings({wire.INITIAL_WINDOW_SIZE: 60_001})
    bench.turn.run()
    assert bench.sizes() == {1: 1}


class Producer:
    """Writes ``more`` when it is resumed."""

    def __init__(self, bench: Bench, stream: Stream, *more: int) -> None:
        self.bench, self.stream, self.more = bench, stream, list(more)
        self.calls: list[str] = []

    def pauseProducing(self) -> None:
        self.calls.append("pause")

    def resumeProducing(self) -> None:
        self.calls.append("resume")
        if self.more:
            size = self.more.pop(0)
            if size < 0:
                raise ValueError("a fault")
            self.bench.sending.data(self.stream, b"x" * size)
        if not self.more:
            self.stream.unregisterProducer()


def test_a_producer_that_pushes_is_paused_while_its_data_waits() -> None:
    bench = Bench()
    producer = Producer(bench, bench.one, 0, 0)
    bench.one.registerProducer(producer, True)  # type: ignore[arg-type]
    bench.sending.data(bench.one, b"x" * DEFAULT)
    assert producer.calls == []
    for _ in range(2):
        bench.sending.data(bench.one, b"x")
    assert producer.calls == ["pause"]
    bench.turn.run()
    bench.sending.open_window(None, 10)
    bench.sending.open_window(bench.one, 1)
    bench.turn.run()
    assert producer.calls == ["pause"], "one byte still waits"
    bench.sending.open_window(bench.one, 1)
    bench.turn.run()
    assert producer.calls == ["pause", "resume"] and not bench.one.paused


@pytest.mark.parametrize("waits", ["data", "block", ""])
def test_a_producer_that_comes_late_is_paused_at_once(waits: str) -> None:
    bench = Bench()
    if waits:
        bench.sending.pause()
        if waits == "data":
            bench.sending.data(bench.one, b"x")
        else:
            bench.sending.head(bench.one, b"block")
    producer = Producer(bench, bench.one, 0, 0)
    bench.one.registerProducer(producer, True)  # type: ignore[arg-type]
    assert producer.calls == (["pause"] if waits else [])


def test_a_producer_that_pulls_is_asked_until_it_has_nothing() -> None:
    bench = Bench()
    sending = bench.sending
    producer = Producer(bench, bench.one, 10, 20, 30)
    bench.one.registerProducer(producer, False)  # type: ignore[arg-type]
    assert (producer.calls, len(bench.writes)) == (["resume"], 1)
    assert bench.sizes() == {1: 10}
    sending.pause()
    bench.turn.run()
    assert producer.calls == ["resume"]
    sending.resume()
    bench.turn.run()
    assert (bench.sizes(), bench.turn.waiting) == ({1: 50}, [])
    assert producer.calls == ["resume"] * 3


def test_a_producer_that_pulls_waits_for_transport_and_window() -> None:
    bench = Bench()
    sending = bench.sending
    sending.pause()
    producer = Producer(bench, bench.one, DEFAULT, 7)
    bench.one.registerProducer(producer, False)  # type: ignore[arg-type]
    assert (producer.calls, bench.turn.waiting) == ([], [])
    sending.resume()
    bench.turn.run()
    assert producer.calls == ["resume"] and bench.one.window == 0
    bench.turn.run()
    assert producer.calls == ["resume"]
    sending.open_window(None, 100)
    sending.open_window(bench.one, 100)
    bench.turn.run()
    assert producer.calls == ["resume"] * 2 and bench.sizes() == {1: DEFAULT + 7}


def test_a_producer_that_fails_costs_its_stream() -> None:
    bench = Bench()
    bench.one.registerProducer(Producer(bench, bench.one, -1), False)  # type: ignore[arg-type]
    assert (bench.resets, bench.aborted, bench.turn.waiting) == ([1], False, [])


def test_frames_are_gathered_while_they_are_held() -> None:
    bench = Bench()
    sending = bench.sending
    sending.hold()
    sending.hold()
    sending.head(bench.one, b"block")
    sending.release()
    sending.control(b"c" * 9)
    assert bench.writes == []
    sending.release()
    assert len(bench.writes) == 1
    sending.flush()
    assert len(bench.writes) == 1
    sending.hold()
    sending.control(b"c" * 65536)
    assert len(bench.writes) == 1
    sending.control(b"c")
    assert [len(each) for each in bench.writes[1:]] == [65537], "but not without end"
    sending.release()
    sending.control(b"c")
    assert len(bench.writes) == 3


def test_a_server_that_gathers_answers_is_asked_once_for_a_connection() -> None:
    bench = Bench(gathers=True)
    for stream in (bench.one, bench.three):
        bench.sending.whole(stream, b"block", b"x")
    assert (bench.gathered, bench.writes) == ([bench.sending], [])
    bench.sending.flush_safely()
    assert len(bench.writes) == 1
    bench.sending.head(bench.five, b"block")
    assert bench.gathered == [bench.sending] * 2

    def fail(data: bytes) -> None:
        raise ValueError("a fault")

    bench.transport.write = fail
    bench.sending.flush_safely()
    assert bench.aborted


@pytest.mark.parametrize(("blocked", "size"), [(True, 17 * 1024), (False, 100 * 1024)])
def test_answers_to_control_frames_that_are_not_read_have_a_limit(blocked: bool, size: int) -> None:
    bench = Bench()
    if blocked:
        bench.sending.pause()
    bench.sending.control(b"c" * (size - 1))
    bench.sending.control(b"c")
    if not blocked:
        return
    with pytest.raises(ConnectionFault) as caught:
        bench.sending.control(b"c")
    assert (caught.value.code, caught.value.reason) == (Code.ENHANCE_YOUR_CALM, "flood")
    bench.sending.resume()
    bench.sending.pause()
    bench.sending.control(b"c" * size)


def test_a_stream_that_ended_meanwhile_is_passed_over() -> None:
    bench = Bench()
    sending = bench.sending
    for stream in (bench.one, bench.three):
        sending.pause()
        sending.head(stream, b"block")
    del bench.streams[1]
    sending.forget(bench.one)
    sending.resume()
    bench.turn.run()
    assert bench.frames() == [headers(3, 5 + len(NO_TABLE))]
    sending.pause()
    sending.data(bench.three, b"x")
    sending.forget_all()
    sending.resume()
    assert bench.turn.waiting == []


def test_a_fault_of_the_server_costs_the_connection_alone() -> None:
    bench = Bench()
    bench.sending.pause()
    bench.sending.data(bench.one, b"x")
    bench.sending.resume()
    bench.one.waiting.append(None)  # type: ignore[arg-type]
    bench.turn.run()
    assert bench.aborted and bench.turn.waiting == []
