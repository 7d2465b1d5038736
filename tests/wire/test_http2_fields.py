"""Header blocks: what clients send is read as hpack reads it, and hpack reads what is answered."""

from __future__ import annotations

from collections.abc import Callable

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.serving.http2_heads import Malformed, answer_block, request_head
from kapi.wire.http2.fields import CONNECTION_FIELDS, Decoder, Undecodable, encoded_field

LARGEST = 65_536
text = st.binary(max_size=60) | st.sampled_from([b":path", b"/api/v1/pods", b"accept", b"x" * 300, b"authorization"])
field = st.tuples(text, text, st.booleans())
blocks = st.lists(st.tuples(st.lists(field, max_size=12), st.booleans(), st.sampled_from([None, 0, 64, 1000, 4096])))


def by_hpack(decoder: hpack.Decoder, block: bytes) -> list[tuple[bytes, bytes]] | None:
    try:
        return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except hpack.HPACKError:
        return None


@given(blocks)
def test_blocks_of_a_connection(many: list[tuple[list[tuple[bytes, bytes, bool]], bool, int | None]]) -> None:
    """With a table that fills, is emptied and changes its size."""
    encoder, decoder = hpack.Encoder(), Decoder(LARGEST)
    for fields, huffman, size in many:
        if size is not None:
            encoder.header_table_size = size
        block = encoder.encode(fields, huffman=huffman)
        assert decoder.decode(block) == [(name, value) for name, value, _ in fields]


@given(st.lists(st.binary(max_size=16), max_size=4))
def test_any_bytes(parts: list[bytes]) -> None:
    """Several blocks of one connection until one is none."""
    mine, theirs = Decoder(LARGEST), hpack.Decoder(LARGEST)
    for block in parts:
        expected = by_hpack(theirs, block)
        if expected is None:
            with pytest.raises(Undecodable):
                mine.decode(block)
            return
        assert mine.decode(block) == expected


STATIC = {name for name, _ in hpack.table.HeaderTable.STATIC_TABLE} - CONNECTION_FIELDS


@pytest.mark.parametrize("name", [*sorted(STATIC), b"x-other", b"X-Upper", b"x" * 126, b"x" * 127, b"x" * 400])
def test_a_field_is_written_as_a_literal_that_is_not_kept(name: bytes) -> None:
    for size in (0, 1, 126, 127, 128, 255, 400):
        block = encoded_field(name, b"v" * size)
        assert block[0] >> 4 == 0, "without indexing"
        (field,) = hpack.Decoder().decode(block, raw=True)
        assert (bytes(field[0]), bytes(field[1])) == (name.lower(), b"v" * size)


def test_any_status_is_read_as_it_was_written() -> None:
    for status in range(100, 600):
        block, _ = answer_block(status, [])
        assert list(hpack.Decoder().decode(block, raw=True)) == [(b":status", b"%d" % status)]


def test_line_breaks_in_a_value_become_blanks() -> None:
    assert hpack.Decoder().decode(encoded_field(b"a", b"b\r\nc\0d"), raw=True) == [(b"a", b"b c d")]
    assert encoded_field(b"Connection", b"close") == b""


def test_numbers_that_do_not_end() -> None:
    for block in (b"\xff" + b"\x80" * 100, b"\x7f" + b"\xff" * 9 + b"\x00", b"\x3f" + b"\x80" * 9, b"\x00\x7f\x80"):
        with pytest.raises(Undecodable):
            Decoder(LARGEST).decode(block)


def test_a_number_has_at_most_four_bytes_after_its_prefix() -> None:
    for number, size in ((b"\x7f\x00", 127), (b"\x7f\x81\x01", 256), (b"\x7f\x81\x80\x80\x00", 128)):
        assert Decoder(LARGEST).decode(b"\x00\x01a" + number + b"v" * size) == [(b"a", b"v" * size)]
    with pytest.raises(Undecodable, match="too long"):
        Decoder(LARGEST).decode(b"\x00\x01a\x7f\x81\x80\x80\x80\x00" + b"v" * 128)


def test_a_list_that_grows_when_it_is_unpacked() -> None:
    """What is too much is left out, and the table remains right."""
    decoder = Decoder(LARGEST)
    assert len(decoder.decode(b"\x40\x01a\x7f\x81\x1e" + b"x" * 3968 + b"\xbe" * 40)) == 16
    assert decoder.oversized
    assert decoder.decode(b"\xbe") == [(b"a", b"x" * 3968)]
    assert not decoder.oversized


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("size", [7, 100_000])
def test_a_list_has_at_most_ten_thousand_fields(more: int, size: int) -> None:
    """However the last one comes."""
    decoder: Decoder[object] = Decoder(10_000_000)
    found = in_parts(decoder, b"\x82" * (9_999 + more) + b"\x00\x01a\x0fbbbbbbbbbbbbbbb", size)
    assert (len(found), decoder.oversized) == (min(10_000, 10_000 + more), more > 0)
    assert (found[-1] == (b"a", b"b" * 15)) == (more <= 0)


def in_parts(decoder: Decoder[object], block: bytes, size: int) -> list[tuple[bytes, bytes]]:
    decoder.begin()
    for at in range(0, len(block), size):
        decoder.feed(block[at : at + size])
    return decoder.end()


@given(blocks, st.integers(1, 40))
def test_blocks_that_come_in_parts(
    many: list[tuple[list[tuple[bytes, bytes, bool]], bool, int | None]], size: int
) -> None:
    encoder, decoder = hpack.Encoder(), Decoder(LARGEST)
    for fields, huffman, table in many:
        if table is not None:
            encoder.header_table_size = table
        block = encoder.encode(fields, huffman=huffman)
        assert in_parts(decoder, block, size) == [(name, value) for name, value, _ in fields]


@given(st.lists(st.binary(max_size=16), max_size=4), st.integers(1, 4))
def test_any_bytes_in_parts(parts: list[bytes], size: int) -> None:
    """They are what they are in one."""
    mine, whole = Decoder(LARGEST), Decoder(LARGEST)
    for block in parts:
        try:
            expected = whole.decode(block)
        except Undecodable:
            with pytest.raises(Undecodable):
                in_parts(mine, block, size)
            return
        assert in_parts(mine, block, size) == expected


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (b"\x18", "a Huffman code ends within a symbol"),  # "a" and zeros
        (b"\x1f\xff", "a Huffman code ends within a symbol"),  # "a" and more than seven bits
        (b"\xff\xff\xff\xff\x1f", "an invalid Huffman code"),  # the end of a text, and an "a" behind it
    ],
)
def test_huffman_codes_that_are_none(code: bytes, why: str) -> None:
    block = b"\x00\x01x" + bytes((0x80 | len(code),)) + code
    with pytest.raises(Undecodable, match=why):
        Decoder(LARGEST).decode(block)
    for size in (1, 2, 7):
        with pytest.raises(Undecodable, match=why):
            in_parts(Decoder(LARGEST), block, size)


PIECE = bytes(range(48, 120)) * 8  # its Huffman code is whole bytes


def _in_pieces(encode: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """hpack takes seconds for a long value: its time grows with the square of the length."""
    return lambda data: encode(PIECE) * (len(data) // len(PIECE)) if data.startswith(PIECE) else encode(data)


@pytest.mark.parametrize("huffman", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_value_that_is_too_long_is_left_out(huffman: bool, indexed: bool) -> None:
    """And the fields behind it are as they were: a large entry empties the table."""
    kind = hpack.HeaderTuple if indexed else hpack.NeverIndexedHeaderTuple
    encoder, decoder = hpack.Encoder(), Decoder(LARGEST)
    encoder.huffman_coder.encode = _in_pieces(encoder.huffman_coder.encode)
    for count in (LARGEST // len(PIECE), LARGEST // len(PIECE) + 1, 3 * LARGEST // len(PIECE)):
        fields = [(b"a", b"b"), kind(b"long", PIECE * count), (b"c", b"d"), (b"a", b"b")]
        found = in_parts(decoder, encoder.encode(fields, huffman=huffman), 1000)
        is_too_long = len(PIECE) * count >= LARGEST
        assert decoder.oversized == is_too_long
        assert found == ([(b"a", b"b")] if is_too_long else [tuple(field) for field in fields])


def test_a_block_that_ends_within_a_field() -> None:
    block = hpack.Encoder().encode([(b"name", b"value" * 10)])
    for end in range(1, len(block)):
        with pytest.raises(Undecodable):
            in_parts(Decoder(LARGEST), block[:end], 3)


@given(st.integers(200, 599), st.lists(st.tuples(st.sampled_from([b"Content-Type", b"X-Some", b"etag"]), text)))
def test_answers(status: int, fields: list[tuple[bytes, bytes]]) -> None:
    decoded = hpack.Decoder().decode(answer_block(status, fields)[0], raw=True)
    assert bytes(decoded[0][1]) == b"%d" % status
    assert [name for name, _ in decoded[1:]] == [name.lower() for name, _ in fields]
    for (_, value), (_, given_value) in zip(decoded[1:], fields, strict=True):
        assert not set(bytes(value)) & set(b"\r\n\0")
        if not set(given_value) & set(b"\r\n\0\v\f\x1c\x1d\x1e\x85"):
            assert bytes(value) == given_value


def test_what_is_of_a_connection_is_left_out_of_answers() -> None:
    fields = [(b"Connection", b"close"), (b"Transfer-Encoding", b"chunked"), (b"A", b"b")]
    block, leaves = answer_block(200, fields)
    assert leaves
    assert not answer_block(200, fields[1:])[1]
    assert hpack.Decoder().decode(block) == [(":status", "200"), ("a", "b")]


def test_the_host_is_a_field() -> None:
    begin = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/")]
    both = [*begin, (b":authority", b"A"), (b"host", b"a")]
    assert request_head([*begin, (b":authority", b"a"), (b"x", b"y")]).fields == [(b"host", b"a"), (b"x", b"y")]
    assert request_head(both).fields == [(b"host", b"a")]
    assert request_head([*begin, (b"host", b"a")]).fields == [(b"host", b"a")]
    with pytest.raises(Malformed):
        request_head([*begin, (b":authority", b"a\rb")])
    assert request_head([*begin, (b":authority", b"[::1]:6443")]).path == b"/"
    for host in (b"a b", b"a/b", b"a\\b", b"user@a", b"a<b", b"\xc3\xa9"):
        assert request_head([*begin, (b":authority", host)]).path is None
        assert request_head([*begin, (b"host", host)]).path is None
