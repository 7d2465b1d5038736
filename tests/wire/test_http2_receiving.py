"""What the receiving side of HTTP/2 makes of frames: each rule of RFC 9113 that it checks, and each bound, to the byte."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.wire.http2 import frames as wire
from kapi.wire.http2.fields import Field
from kapi.wire.http2.frames import Code, ConnectionFault
from kapi.wire.http2.receiving import ENDED, RESET_BY_PEER, RESET_HERE, WINDOW, Receiving, count_unread
from tests.wire.http2_peer import block, data, headers

FIELDS = 1000  # bytes of a header list
SETTLED = wire.settings({})


class Body:
    """A stream that receives a body."""

    complete = held = False
    receive_window, missing, free = WINDOW, None, 0

    def __init__(self, missing: int | None = None, held: bool = False) -> None:
        self.missing, self.held = missing, held


class End(Receiving[Body, None]):
    """It keeps what it is told.  Stream 1 is open, 3 and 5 have ended, 7 has never been known."""

    def __init__(self, preface: bool = False) -> None:
        super().__init__(FIELDS, preface=preface)
        self.told: list[Any] = []
        self.now = 100.0
        self.streams[1] = Body()
        self.highest = 7
        for number, how in ((3, ENDED), (5, RESET_HERE)):
            self.note_ended(number, how)

    def sees(self, *frames: bytes) -> list[Any]:
        """What it is told of frames; a fault of the connection is the last."""
        try:
            self.receive(b"".join(frames))
        except ConnectionFault as fault:
            self.told.append((fault.code, str(fault)))
        told, self.told = self.told, []
        return told

    def seconds(self) -> float:
        return self.now

    def fields(self, number: int, flags: int, decoded: list[Field]) -> None:
        self.told.append(("fields", number, flags & wire.END_STREAM, [name for name, _ in decoded]))

    def block_grows(self, size: int) -> None:
        self.told.append(("block", size))

    def body(self, stream: Body, data: bytes) -> None:
        self.told.append(data if len(data) < 100 else len(data))

    def complete(self, stream: Body) -> None:
        self.told.append("complete")

    def reset_by_peer(self, stream: Body, code: int) -> None:
        self.told.append(("reset", code))

    def refuse(self, number: int, code: Code, why: str) -> None:
        self.told.append((number, code, why))

    def open_window(self, stream: Body | None, increment: int) -> None:
        self.told.append(("window", stream is not None, increment))

    def settings(self, values: dict[int, int]) -> None:
        self.told.append(values)

    def peer_leaves(self, last: int, code: int) -> None:
        self.told.append(("leaves", last, code))

    def answer(self, frames: bytes) -> None:
        self.told.append(frames.hex())


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return wire.head(len(payload), kind, flags, stream) + payload


def number(value: int) -> bytes:
    return value.to_bytes(4)


TAKEN = wire.SETTINGS_TAKEN.hex()
PROTOCOL, SIZE, CLOSED, FLOW = Code.PROTOCOL_ERROR, Code.FRAME_SIZE_ERROR, Code.STREAM_CLOSED, Code.FLOW_CONTROL_ERROR
WITH_PRIORITY = wire.END_HEADERS | wire.WITH_PRIORITY
BOTH = WITH_PRIORITY | wire.PADDED


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        # the first bytes and the form of frames
        ([frame(wire.PING, bytes(8))], [(PROTOCOL, "the first frame is not SETTINGS")]),
        ([SETTLED, SETTLED[:8]], [{}, TAKEN]),
        ([SETTLED, wire.head(wire.DEFAULT_FRAME + 1, wire.DATA, 0, 1)], [{}, TAKEN, (SIZE, "a frame is too long")]),
        ([SETTLED, wire.head(wire.DEFAULT_FRAME, wire.DATA, 0, 1)], [{}, TAKEN]),
        ([SETTLED, frame(10, b"x"), frame(255)], [{}, TAKEN]),
        # SETTINGS
        ([frame(wire.SETTINGS, stream=1)], [(PROTOCOL, "SETTINGS of a stream")]),
        ([frame(wire.SETTINGS, bytes(5))], [(SIZE, "SETTINGS of another length")]),
        ([frame(wire.SETTINGS, bytes(6), wire.ACK)], [(SIZE, "SETTINGS of another length")]),
        ([frame(wire.SETTINGS, b"", wire.ACK)], []),
        ([wire.settings({wire.ENABLE_PUSH: 1, 99: 5})], [{wire.ENABLE_PUSH: 1, 99: 5}, TAKEN]),
        ([wire.settings({wire.ENABLE_PUSH: 2})], [(PROTOCOL, "SETTINGS_ENABLE_PUSH is neither 0 nor 1")]),
        ([wire.settings({wire.INITIAL_WINDOW_SIZE: (1 << 31) - 1})], [{wire.INITIAL_WINDOW_SIZE: (1 << 31) - 1}, TAKEN]),
        ([wire.settings({wire.INITIAL_WINDOW_SIZE: 1 << 31})], [(FLOW, "SETTINGS_INITIAL_WINDOW_SIZE is too large")]),
        *(([wire.settings({wire.MAX_FRAME_SIZE: size})], [{wire.MAX_FRAME_SIZE: size}, TAKEN]) for size in (16_384, 16_777_215)),
        *(([wire.settings({wire.MAX_FRAME_SIZE: size})], [(PROTOCOL, "SETTINGS_MAX_FRAME_SIZE is out of its range")])
          for size in (16_383, 16_777_216)),
    ],
)  # fmt: skip
def test_how_a_connection_begins(frames: list[bytes], told: list[Any]) -> None:
    assert End().sees(*frames) == told
    apart = End()
    assert [each for byte in b"".join(frames) for each in apart.sees(bytes((byte,)))][: len(told)] == told


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        # HEADERS and CONTINUATION
        ([headers()], [("fields", 1, 0, [b":status"])]), ([headers(ends=True)], [("fields", 1, 1, [b":status"])]),
        ([headers(stream=2)], [(PROTOCOL, "HEADERS of a stream that is none of the client's")]),
        ([headers(stream=0)], [(PROTOCOL, "HEADERS of a stream that is none of the client's")]),
        ([frame(wire.HEADERS, b"\2" + block() + b"xx", wire.END_HEADERS | wire.PADDED, 1)], [("fields", 1, 0, [b":status"])]),
        ([frame(wire.HEADERS, b"", wire.END_HEADERS | wire.PADDED, 1)], [(SIZE, "a padded frame without a length of it")]),
        ([frame(wire.HEADERS, number(0) + b"\0" + block(), WITH_PRIORITY, 1)],
         [("fields", 1, 0, [b":status"])]),
        ([frame(wire.HEADERS, number(1 << 31 | 3) + b"\0" + block(), WITH_PRIORITY, 1)],
         [("fields", 1, 0, [b":status"])]),
        ([frame(wire.HEADERS, b"\1" + number(0) + b"\0" + block() + b"x", BOTH, 1)],
         [("fields", 1, 0, [b":status"])]),
        ([frame(wire.HEADERS, bytes(4), WITH_PRIORITY, 1)],
         [(SIZE, "HEADERS without space for a priority")]),
        ([frame(wire.HEADERS, b"\1" + bytes(5), BOTH, 1)],
         [(SIZE, "HEADERS without space for a priority")]),
        ([frame(wire.HEADERS, bytes(5), wire.WITH_PRIORITY, 1), frame(wire.CONTINUATION, block(), wire.END_HEADERS, 1)],
         [("block", 0), ("block", 0), ("fields", 1, 0, [b":status"])]),
        ([frame(wire.HEADERS, block()[:1], wire.END_STREAM, 1), frame(wire.CONTINUATION, block()[1:], wire.END_HEADERS, 1)],
         [("block", 1), ("block", 0), ("fields", 1, 1, [b":status"])]),
        ([frame(wire.HEADERS, b"", 0, 1), frame(wire.CONTINUATION, block(), wire.END_HEADERS, 3)],
         [("block", 0), (PROTOCOL, "CONTINUATION of nothing")]),
        ([frame(wire.HEADERS, b"", 0, 1), frame(wire.PING, bytes(8))],
         [("block", 0), (PROTOCOL, "a header block is interrupted")]),
        ([frame(wire.CONTINUATION, block(), wire.END_HEADERS, 1)], [(PROTOCOL, "CONTINUATION of nothing")]),
        ([frame(wire.HEADERS, b"\xff" * 9, wire.END_HEADERS, 1)], [(Code.COMPRESSION_ERROR, "a number that is too long")]),
        # DATA
        ([data(b"abc")], [b"abc"]), ([data(b"abc", ends=True)], [b"abc", "complete"]), ([data(b"", ends=True)], ["complete"]),
        ([frame(wire.DATA, b"\1abcx", wire.PADDED, 1)], [b"abc"]),
        ([frame(wire.DATA, b"\5abcx", wire.PADDED, 1)], [(PROTOCOL, "more padding than there is")]),
        ([data(b"a", ends=True), data(b"b")], [b"a", "complete", (1, CLOSED, "DATA after the end")]),
        ([data(b"a", stream=0)], [(PROTOCOL, "DATA of no stream")]), ([data(b"a", stream=9)], [(PROTOCOL, "DATA of no stream")]),
        ([data(b"a", stream=3)], [(CLOSED, "DATA of a stream that is over")]), ([data(b"a", stream=5)], []),
        ([data(b"a", stream=7)], [(7, CLOSED, "DATA of a stream that is over")]),
        ([data(b"a", stream=7), data(b"a", stream=7)], [(7, CLOSED, "DATA of a stream that is over")]),  # once
        # PRIORITY, RST_STREAM, PUSH_PROMISE
        ([frame(wire.PRIORITY, bytes(5))], [(PROTOCOL, "PRIORITY of no stream")]),
        ([frame(wire.PRIORITY, bytes(4), stream=1)], [(1, SIZE, "PRIORITY of another length")]),
        ([frame(wire.PRIORITY, number(1 << 31 | 1) + b"\0", stream=1)], [(1, PROTOCOL, "a stream depends on itself")]),
        ([frame(wire.PRIORITY, number(1 << 31 | 3) + b"\0", stream=1)], []), ([frame(wire.PRIORITY, bytes(5), stream=99)], []),
        ([wire.reset(1, Code.CANCEL)], [("reset", 8)]), ([wire.reset(3, Code.CANCEL), wire.reset(7, Code.CANCEL)], []),
        ([frame(wire.RST_STREAM, bytes(5), stream=1)], [(SIZE, "RST_STREAM of another length")]),
        ([wire.reset(0, Code.CANCEL)], [(PROTOCOL, "RST_STREAM of no stream")]),
        ([wire.reset(9, Code.CANCEL)], [(PROTOCOL, "RST_STREAM of no stream")]),
        ([wire.reset(2, Code.CANCEL)], [(PROTOCOL, "RST_STREAM of no stream")]),
        ([frame(wire.PUSH_PROMISE, bytes(8), stream=1)], [(PROTOCOL, "PUSH_PROMISE, which nothing here allows")]),
        # PING, GOAWAY
        ([frame(wire.PING, b"12345678")], [wire.pong(b"12345678").hex()]), ([wire.pong(bytes(8))], []),
        ([frame(wire.PING, bytes(8), stream=1)], [(PROTOCOL, "PING of a stream")]),
        *(([frame(wire.PING, bytes(size))], [(SIZE, "PING of another length")]) for size in (7, 9)),
        ([wire.goaway(5, Code.NO_ERROR, "text")], [("leaves", 5, 0)]),
        ([frame(wire.GOAWAY, number(1 << 31 | 5) + number(11))], [("leaves", 5, 11)]),
        ([frame(wire.GOAWAY, bytes(7))], [(SIZE, "GOAWAY of another length")]),
        ([frame(wire.GOAWAY, bytes(8), stream=1)], [(PROTOCOL, "GOAWAY of a stream")]),
        # WINDOW_UPDATE
        ([wire.window_update(0, 5), wire.window_update(1, 1)], [("window", False, 5), ("window", True, 1)]),
        ([frame(wire.WINDOW_UPDATE, number(1 << 31 | 5))], [("window", False, 5)]),
        ([wire.window_update(0, 0)], [(PROTOCOL, "WINDOW_UPDATE by nothing")]),
        ([wire.window_update(1, 0)], [(1, PROTOCOL, "WINDOW_UPDATE by nothing")]), ([wire.window_update(3, 0)], []),
        ([wire.window_update(9, 5)], [(PROTOCOL, "WINDOW_UPDATE of no stream")]),
        ([wire.window_update(2, 5)], [(PROTOCOL, "WINDOW_UPDATE of no stream")]),
        *(([frame(wire.WINDOW_UPDATE, bytes(size), stream=1)], [(SIZE, "WINDOW_UPDATE of another length")]) for size in (3, 5)),
    ],
)  # fmt: skip
def test_what_frames_are_told_of(frames: list[bytes], told: list[Any]) -> None:
    end = End()
    end.sees(SETTLED)
    assert end.sees(*frames) == told


@pytest.mark.parametrize(
    ("missing", "frames", "told"),
    [
        (3, [data(b"ab"), data(b"c", ends=True)], [b"ab", b"c", "complete"]),
        (3, [frame(wire.DATA, b"\1abcx", wire.PADDED | wire.END_STREAM, 1)], [b"abc", "complete"]),
        (3, [data(b"abcd")], [(1, PROTOCOL, "the body has another length")]),
        (3, [data(b"ab", ends=True)], [(1, PROTOCOL, "the body has another length")]),
        (0, [data(b"", ends=True)], ["complete"]),
    ],
)
def test_a_body_has_the_length_that_its_head_says(missing: int, frames: list[bytes], told: list[Any]) -> None:
    end = End()
    end.sees(SETTLED)
    end.streams[1] = Body(missing)
    assert end.sees(*frames) == told


def test_a_client_begins_with_the_preface() -> None:
    for size in range(len(wire.PREFACE)):
        end = End(preface=True)
        assert end.sees(wire.PREFACE[:size]) == []
        assert end.sees(b"x") == [(PROTOCOL, "this is no HTTP/2")]
        end = End(preface=True)
        assert end.sees(wire.PREFACE[:size]) + end.sees(wire.PREFACE[size:], SETTLED) == [{}, TAKEN]


def piece(size: int = wire.DEFAULT_FRAME) -> bytes:
    return data(bytes(size))


def test_windows_open_when_half_of_them_is_taken() -> None:
    end = End()
    end.sees(SETTLED)
    half = WINDOW // 2 // wire.DEFAULT_FRAME  # frames
    assert end.sees(piece() * (half - 1), piece(wire.DEFAULT_FRAME - 1))[half:] == []
    assert end.sees(piece(1))[1:] == [wire.window_update(1, WINDOW // 2).hex()]
    assert end.sees(piece() * half)[half:] == [wire.window_update(1, WINDOW // 2).hex()]
    end.streams[1].receive_window = 10 * WINDOW
    assert len(end.sees(piece() * (2 * half - 1), piece(wire.DEFAULT_FRAME - 1))) == 2 * half
    assert end.sees(piece(1)) == [wire.window_update(0, 2 * WINDOW).hex(), b"\0"]


def test_a_stream_may_take_its_window_and_no_more() -> None:
    end = End()
    end.sees(SETTLED)
    end.streams[1] = Body(held=True)
    frames = WINDOW // wire.DEFAULT_FRAME
    assert end.sees(piece() * frames) == [wire.DEFAULT_FRAME] * frames
    assert end.streams[1].receive_window == 0
    assert end.sees(piece(1)) == [(1, FLOW, "more than the stream's window")]
    end.streams[1] = Body(held=True)
    end.sees(frame(wire.DATA, b"\3abcxxx", wire.PADDED, 1))
    assert (end.streams[1].free, end.streams[1].receive_window) == (4, WINDOW - 7)


def test_a_header_block_has_bounds() -> None:
    """Twice the bytes of its fields, 64 CONTINUATION frames, and one more for each KiB."""
    for size, why in ((2 * FIELDS, []), (2 * FIELDS + 1, [(Code.ENHANCE_YOUR_CALM, "a header block is too long")])):
        end = End()
        end.sees(SETTLED)
        literal = b"\x00\x01a\x7f" + bytes((size - 6 - 127 & 0x7F | 0x80, size - 6 - 127 >> 7)) + b"b" * (size - 6)
        assert len(literal) == size
        assert [each for each in end.sees(frame(wire.HEADERS, literal, 0, 1)) if each[0] != "block"] == why
    for first, count in ((b"", 64), (block() * 1024, 65)):
        end = End()
        end.sees(SETTLED)
        end.sees(frame(wire.HEADERS, first[:1024], 0, 1))
        assert end.sees(frame(wire.CONTINUATION, b"", 0, 1) * count)[-1][0] == "block"
        fault = [(Code.ENHANCE_YOUR_CALM, "a header block is too long")]
        assert end.sees(frame(wire.CONTINUATION, b"", 0, 1)) == fault


@pytest.mark.parametrize(
    ("frames", "count", "what"),
    [
        (SETTLED, 1000, "SETTINGS"), (frame(wire.SETTINGS, b"", wire.ACK), 1000, "SETTINGS"),
        (wire.pong(bytes(8)), 1000, "PING"), (frame(wire.PING, bytes(8)), 1000, "PING"),
        (frame(99), 1000, "a frame of an unknown type"),
        (wire.reset(3, Code.CANCEL), 1000, "RST_STREAM"), (data(b""), 1000, "DATA of nothing"),
        (wire.window_update(1, 0), 1000, "WINDOW_UPDATE by nothing"),
        (frame(wire.PRIORITY, bytes(5), stream=1), 10_000, "PRIORITY"), (data(b"a", stream=5), 10_000, "DATA"),
        (wire.window_update(3, 1), 10_000, "WINDOW_UPDATE"),
    ],
    ids=lambda value: None if isinstance(value, str | int) else "frames",
)  # fmt: skip
def test_a_burst_of_frames_that_carry_nothing_has_a_bound(frames: bytes, count: int, what: str) -> None:
    end = End()
    end.sees(SETTLED)
    flood = (Code.ENHANCE_YOUR_CALM, f"too many frames like {what}")
    rounding = count // 2000  # tenths do not add up
    assert flood not in end.sees(frames * (count - rounding))
    assert end.sees(frames * (2 * rounding + 1))[-1] == flood


def test_such_frames_are_allowed_again_with_time() -> None:
    end, ping = End(), wire.pong(bytes(8))
    end.sees(SETTLED, ping * 1000)
    for seconds, count in ((1.0, 33), (2.0, 66), (0.0, 0), (1000.0, 1000)):
        end.now += seconds
        assert end.sees(ping * count) == []
    assert end.sees(ping) == [(Code.ENHANCE_YOUR_CALM, "too many frames like PING")]
    with pytest.raises(ConnectionFault) as caught:
        end.idle("x")
    assert caught.value.reason == "flood"


def test_updates_that_what_was_sent_accounts_for_are_no_burst() -> None:
    """One for each 64 bytes."""
    end, window = End(), wire.DEFAULT_WINDOW
    for _ in range(20_000):  # twice as many as a burst
        end.count_update(64, window)
    end.count_update(0, window - 64)
    for _ in range(9_995):
        end.count_update(0, window - 127)
    with pytest.raises(ConnectionFault, match="too many frames like WINDOW_UPDATE"):
        for _ in range(10):
            end.count_update(0, window - 127)


def test_the_ends_of_the_last_256_streams_are_remembered() -> None:
    end = End()
    end.sees(SETTLED)
    end.highest = 2001
    for stream in range(1001, 1001 + 2 * 256, 2):
        end.note_ended(stream, RESET_BY_PEER if stream == 1003 else ENDED)
    assert end.sees(data(b"a", stream=3)) == [
        (3, CLOSED, "DATA of a stream that is over")
    ]  # forgotten; refused from now on
    assert end.sees(data(b"a", stream=1003)) == [(1003, CLOSED, "DATA of a stream that is over")]
    assert end.sees(data(b"a", stream=1005)) == [(CLOSED, "DATA of a stream that is over")]


def test_answers_that_are_not_read_have_a_bound() -> None:
    assert count_unread(17 * 1024 - 1, b"x") == 17 * 1024
    with pytest.raises(ConnectionFault) as caught:
        count_unread(17 * 1024, b"x")
    assert (caught.value.code, caught.value.reason) == (Code.ENHANCE_YOUR_CALM, "flood")
