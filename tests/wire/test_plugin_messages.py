"""Messages of plugins: what is written is read, and what is no message of the expected form is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kapi.wire.plugin_messages import (
    WireError,
    all_bytes,
    decode,
    decode_map,
    encode,
    encode_map,
    last_bytes,
    last_number,
    last_signed,
    last_text,
)


def test_messages_are_protobufs() -> None:
    data = encode([(1, b"abc"), (2, b""), (3, 300), *encode_map(4, {"k": b"v"})])
    assert data == b"\x0a\x03abc\x18\xac\x02\x22\x06\x0a\x01k\x12\x01v"
    assert decode(data) == {1: [b"abc"], 3: [300], 4: [b"\x0a\x01k\x12\x01v"]}
    assert decode_map(decode(data), 4) == {"k": b"v"}
    for cut in (1, 2, 4, 6, len(data) - 1):
        with pytest.raises(WireError):
            decode(data[:cut])


def test_the_last_value_counts_and_a_missing_one_is_empty() -> None:
    found = decode(encode([(1, b"a"), (1, b"b"), (2, 1), (2, (1 << 64) - 1)]))
    assert (last_bytes(found, 1), last_text(found, 1), all_bytes(found, 1)) == (b"b", "b", [b"a", b"b"])
    assert (last_number(found, 2), last_signed(found, 2)) == ((1 << 64) - 1, -1)
    assert (last_bytes(found, 3), last_text(found, 3), last_number(found, 3), all_bytes(found, 3)) == (b"", "", 0, [])


def test_fields_of_a_fixed_size_are_skipped() -> None:
    assert decode(b"\x0d1234" + b"\x1112345678" + b"\x18\x01") == {3: [1]}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a\x04abc", "unexpected end"),
        (b"\x0d123", "unexpected end"),
        (b"\x111234567", "unexpected end"),
        (b"\x0b", "wire type 3"),
        (b"\x08", "unexpected EOF"),
        (b"\x08" + b"\xff" * 11, "integer overflow"),
        (b"\x08\x01" * 10_001, "more than 10000 fields"),
    ],
)
def test_what_is_no_message(data: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode(data)


@pytest.mark.parametrize(
    ("read", "value", "why"),
    [
        (last_bytes, 1, "field 1 has a wrong type"),
        (last_text, 1, "field 1 has a wrong type"),
        (last_text, b"\xff", "field 1 is no text"),
        (last_number, b"a", "field 1 has a wrong type"),
        (last_signed, b"a", "field 1 has a wrong type"),
        (all_bytes, 1, "field 1 has a wrong type"),
        (decode_map, 1, "field 1 has a wrong type"),
        (decode_map, encode([(1, b"\xff")]), "field 1 is no text"),
    ],
)
def test_fields_of_another_type(read: Callable[..., Any], value: bytes | int, why: str) -> None:
    with pytest.raises(WireError, match=why):
        read(decode(encode([(1, value)])), 1)
