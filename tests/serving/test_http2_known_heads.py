"""A header block that comes again is not read again, as long as it means the same."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.serving import http2_heads
from kapi.serving.http2_heads import Head, request_head
from kapi.serving.http2_receiving import ReceivingRequests
from kapi.wire.http2 import frames as wire

START = wire.PREFACE + wire.settings({})
BEGIN = ((":method", "GET"), (":scheme", "https"), (":authority", "x"))


class Heard(ReceivingRequests):
    """What the client of a connection has asked for, as (path, fields)."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.asked: list[tuple[bytes | None, list[tuple[bytes, bytes]]]] = []
        self.heads: list[Head] = []
        self.refused: list[int] = []
        self.receive(START)

    def begin(self, number: int, head: Head, ends: bool) -> None:
        self.asked.append((head.path, head.fields[1:]))
        self.heads.append(head)

    def settings(self, values: dict[int, int]) -> None:
        pass

    def answer(self, frames: bytes) -> None:
        pass

    def idle(self, what: str) -> None:
        pass

    def refuse(self, number: int, code: wire.Code, why: str) -> None:
        self.refused.append(number)

    def ask(self, block: bytes) -> None:
        self.receive(wire.header_block(self.highest + 2 | 1, block, wire.END_STREAM, wire.DEFAULT_FRAME))


text = st.text("abc", max_size=3)
fields = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), text, st.booleans()), max_size=4)
requests = st.tuples(st.sampled_from(["/a", "/b"]), fields, st.booleans(), st.sampled_from([None, 0, 100, 4096]))


@settings(deadline=None)
@given(st.lists(requests, max_size=30))
def test_requests_are_what_the_client_has_said(
    many: list[tuple[str, list[tuple[str, str, bool]], bool, int | None]],
) -> None:
    """With a table that fills, is emptied and changes its size between requests that are alike."""
    encoder, heard = hpack.Encoder(), Heard()
    for path, more, sensitive, size in many:
        if size is not None:
            encoder.header_table_size = size
        every = [(*BEGIN[0], sensitive), *BEGIN[1:], (":path", path, sensitive), *more]
        heard.ask(encoder.encode(every))
    assert heard.asked == [
        (path.encode(), [(name.encode(), value.encode()) for name, value, _ in more]) for path, more, _, _ in many
    ]


def block(path: str, *more: tuple[str, str]) -> bytes:
    """All of it is in the block, nothing in the table."""
    every = [hpack.NeverIndexedHeaderTuple(*field) for field in (*BEGIN, (":path", path), *more)]
    return bytes(hpack.Encoder().encode(every))


def of_bytes(size: int) -> bytes:
    """A block of so many bytes."""
    for length in range(size):
        found = block("/" + "X" * length)  # its Huffman code has 8 bits
        if len(found) >= size:
            break
    assert len(found) == size
    return found


def of_fields(count: int) -> bytes:
    """A block of so many fields, with the authority."""
    return block("/", *[("b", "c")] * (count - 1))


def test_the_third_of_a_kind_is_the_second_one() -> None:
    heard = Heard()
    for _ in range(4):
        heard.ask(block("/a"))
    first, second, third, fourth = heard.heads
    assert second is third is fourth
    assert first is not second


def test_what_is_known_is_forgotten_when_the_table_changes() -> None:
    heard = Heard()
    heard.ask(block("/x") + b"\x40\x01a\x011")
    indexed = block("/a") + b"\xbe"  # 62: the newest of the table
    for _ in range(3):
        heard.ask(indexed)
    heard.ask(block("/x") + b"\x40\x01a\x012")
    heard.ask(indexed)
    assert [found[-1:] for _, found in heard.asked] == [[(b"a", b"1")]] * 4 + [[(b"a", b"2")]] * 2


def test_long_blocks_and_blocks_of_many_fields_are_not_kept() -> None:
    heard = Heard()
    for _ in range(3):
        heard.ask(block("/" + "a" * 5000))
        heard.ask(block("/a", *[("b", "c")] * 60))
    assert len({id(head) for head in heard.heads}) == 6


@pytest.mark.parametrize(
    ("make", "size", "kept"),
    [("bytes", 512, True), ("bytes", 513, False), ("fields", 32, True), ("fields", 33, False)],
)
def test_the_largest_block_that_is_kept(make: str, size: int, kept: bool) -> None:
    heard = Heard()
    for _ in range(3):
        heard.ask(of_bytes(size) if make == "bytes" else of_fields(size))
    assert bool(heard._decoder.known) is kept


@pytest.mark.parametrize("status", [200, 201, 204, 206, 299, 304, 400, 404, 409, 500, 503])
def test_names_and_statuses_of_answers_are_those_of_the_static_table(status: int) -> None:
    fields = [(name, b"v") for name, _ in hpack.table.HeaderTable.STATIC_TABLE if not name.startswith(b":")]
    sent = [field for field in fields if field[0] != b"transfer-encoding"]
    found = hpack.Decoder().decode(http2_heads.answer_block(status, fields)[0], raw=True)
    assert [tuple(field) for field in found] == [(b":status", str(status).encode()), *sent]


def test_what_is_kept_has_a_bound() -> None:
    heard = Heard()
    for number in range(500):
        for _ in range(2):
            heard.ask(block(f"/{number}"))
    assert len(heard._decoder.known) <= http2_heads._MAX_CACHED_BLOCKS


def test_a_known_block_does_not_pass_as_trailers_and_counts_as_a_stream() -> None:
    heard = Heard()
    again = block("/a")
    for _ in range(3):
        heard.ask(again)
    number = heard.highest
    with pytest.raises(wire.ConnectionFault):
        heard.receive(wire.header_block(number - 2, again, wire.END_STREAM, wire.DEFAULT_FRAME))
    heard.max_streams = 0
    heard.ask(again)
    assert heard.refused == [number + 2]


def test_spaces_around_values_are_trimmed_as_of_http1() -> None:
    """RFC 9113 calls such a request malformed; but Go's clients send them: ``Bearer `` with an empty token, for example."""
    begin = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/a"), (b":authority", b"x")]
    sent = [(b"authorization", b"Bearer "), (b"x", b"\ta "), (b"y", b"a b"), (b"content-length", b" 3")]
    for _ in range(2):
        head = request_head([*begin, *sent])
        assert [value for name, value in head.fields if name != b"host"] == [b"Bearer", b"a", b"a b", b"3"]
        assert head.length == 3
