"""Fields of messages: numbers at the ends of their sizes, what is skipped, and what is no message, in Go's words."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.schema.protobuf_wire import BYTES, FIXED64, VARINT, ProtobufError, Slot, entry, fields, read_varint

SLOTS = {
    1: Slot("One", VARINT),
    2: Slot("Two", BYTES),
    3: Slot("Three", FIXED64),
    4: Slot("Four", VARINT, form="numbers"),
}
EOF = "unexpected EOF"
OVERFLOW = "proto: integer overflow"
NEGATIVE = "proto: negative length found during unmarshaling"


def read(text: str) -> list[tuple[str, Any]]:
    return [(slot.go_name, value) for slot, value in fields(bytes.fromhex(text), "M", SLOTS)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("00", 0), ("7f", 127), ("8001", 128), ("ff7f", 16383), ("808001", 16384), ("ffffffffffffffffff01", (1 << 64) - 1),
        ("8000", 0), ("80808080808080808001", 1 << 63), ("ffffffffffffffffff7f", (1 << 64) - 1),
    ],
)  # fmt: skip
def test_numbers(text: str, number: int) -> None:
    data = bytes.fromhex(text)
    assert read_varint(data + b"x", 0) == (number, len(data))
    assert read_varint(b"\xff" + data, 1) == (number, len(data) + 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [("", EOF), ("80", EOF), ("ffffffffffffffffff", EOF), ("ffffffffffffffffff80", OVERFLOW), ("80" * 11, OVERFLOW)],
)
def test_what_is_no_number(text: str, why: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        read_varint(bytes.fromhex(text), 0)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []), ("0805", [("One", 5)]), ("1200", [("Two", b"")]), ("120161", [("Two", b"a")]),
        ("190102030405060708", [("Three", bytes(range(1, 9)))]), ("2005", [("Four", 5)]), ("22020506", [("Four", b"\x05\x06")]),
        ("08050806", [("One", 5), ("One", 6)]), ("120161" "0805", [("Two", b"a"), ("One", 5)]),
        # of unknown fields
        ("2805" "0806", [("One", 6)]), ("2a0161" "0806", [("One", 6)]), ("2d01020304" "0806", [("One", 6)]),
        ("290102030405060708" "0806", [("One", 6)]), ("2b2c" "0806", [("One", 6)]), ("2b2805332a0161342c" "0806", [("One", 6)]),
        ("f8ffffff3f05" "0806", [("One", 6)]), ("2a00", []), ("2b2c", []),
    ],
)  # fmt: skip
def test_messages(text: str, found: list[tuple[str, Any]]) -> None:
    assert read(text) == found


LONGEST = "ffffffffffffffff7f"  # 1 << 63, less one


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("08", EOF), ("12", EOF), ("1201", EOF), ("12026161"[:-2], EOF), ("1901020304050607", EOF), ("2a0261", EOF), ("28", EOF),
        ("290102", EOF), ("2d010203", EOF), ("2b", EOF), ("2b2805", EOF), ("2b2b2c", EOF), (f"12{LONGEST}", NEGATIVE),
        (f"2a{LONGEST}", NEGATIVE), ("12f5ffffffffffffff7f", EOF), ("12f6ffffffffffffff7f", NEGATIVE),
        ("2af5ffffffffffffff7f", EOF),
        ("2af6ffffffffffffff7f", NEGATIVE),
        ("0c", "proto: M: wiretype end group for non-group"), ("2c", "proto: M: wiretype end group for non-group"),
        ("0005", "proto: M: illegal tag 0 (wire type 0)"), ("0205", "proto: M: illegal tag 0 (wire type 2)"),
        ("808080804005", "proto: M: illegal tag -2147483648 (wire type 17179869184)"),
        ("f8ffffff7f05", "proto: M: illegal tag -1 (wire type 34359738360)"),
        ("2e", "proto: illegal wireType 6"), ("2f", "proto: illegal wireType 7"), ("2b2e", "proto: illegal wireType 6"),
        ("0a0161", "proto: wrong wireType = 2 for field One"), ("1005", "proto: wrong wireType = 0 for field Two"),
        ("1d01020304", "proto: wrong wireType = 5 for field Three"),
        ("210102030405060708", "proto: wrong wireType = 1 for field Four"),
    ],
)  # fmt: skip
def test_what_is_no_message(text: str, why: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        read(text)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []), ("0a016b120176", [("K", b"k"), ("V", b"v")]), ("1201760a016b", [("V", b"v"), ("K", b"k")]),
        ("08016b", [("K", b"k")]),  # the wire type of an entry's fields is not checked
        ("1805" "0a016b", [("K", b"k")]), ("0a016b" "0a016c", [("K", b"k"), ("K", b"l")]),
    ],
)  # fmt: skip
def test_entries_of_maps(text: str, found: list[tuple[str, Any]]) -> None:
    slots = Slot("K", BYTES), Slot("V", BYTES)
    assert [(slot.go_name, value) for slot, value in entry(bytes.fromhex(text), *slots)] == found


def test_an_entry_that_ends_early() -> None:
    for text in ("0a", "0a026b", "18", "0a016b12"):
        with pytest.raises(ProtobufError, match=f"^{EOF}$"):
            list(entry(bytes.fromhex(text), Slot("K", BYTES), Slot("V", BYTES)))
    with pytest.raises(ProtobufError, match="^proto: unexpected end of group$"):
        list(entry(bytes.fromhex("1c"), Slot("K", BYTES), Slot("V", BYTES)))
