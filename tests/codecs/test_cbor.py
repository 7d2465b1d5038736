"""CBOR: what upstream's decoder takes and refuses, and the form in which upstream's encoder writes."""

from __future__ import annotations

import math
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.codecs.cbor_reading import MAX_DEPTH, CBORError, TooManyParts, Unacceptable, loads, notation
from kapi.codecs.cbor_writing import dumps
from tests.growth.counting import stretches

SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text()
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TREES = st.recursive(SCALARS | FLOATS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)
PROTOCOL = "cbor: data item of cbor type primitives is not accepted by protocol: "


@given(TREES)
def test_what_is_written_is_read_as_the_same_tree(tree: Any) -> None:
    assert loads(dumps(tree)) == tree


@given(TREES)
def test_another_encoder_is_understood(tree: Any) -> None:
    assert loads(cbor2.dumps(tree)) == tree
    assert loads(cbor2.dumps(tree, indefinite_containers=True)) == tree
    assert loads(cbor2.dumps(tree, canonical=True)) == tree


@given(TREES)
def test_another_decoder_understands_with_byte_strings_for_texts(tree: Any) -> None:
    assert dumps(tree)[:3] == bytes.fromhex("d9d9f7")
    assert in_texts(cbor2.loads(dumps(tree)[3:])) == tree


def in_texts(found: Any) -> Any:
    if isinstance(found, dict):
        return {in_texts(key): in_texts(value) for key, value in found.items()}
    if isinstance(found, list):
        return [in_texts(value) for value in found]
    assert not isinstance(found, str)
    return found.decode() if isinstance(found, bytes) else found


@pytest.mark.parametrize(
    ("tree", "written"),
    [
        ("a", "4161"),
        ({"b": 1, "a": 2}, "a2416201416102"),  # in the order of the tree
        ([], "80"),
        ("x" * 24, "5818" + "78" * 24),
        ("x" * 256, "590100" + "78" * 256),
        (23, "17"),
        (24, "1818"),
        (256, "190100"),
        (1 << 16, "1a00010000"),
        (1 << 32, "1b0000000100000000"),
        (-1, "20"),
        (-(1 << 63), "3b7fffffffffffffff"),
        (1.5, "f93e00"),
        (100000.0, "fa47c35000"),
        (1.1, "fb3ff199999999999a"),
        (1e300, "fb7e37e43c8800759c"),
        (None, "f6"),
        (True, "f5"),
    ],
)
def test_the_shortest_form_is_written(tree: Any, written: str) -> None:
    assert dumps(tree).hex() == "d9d9f7" + written


def test_what_is_no_tree_is_not_written() -> None:
    with pytest.raises(TypeError, match="Type is not CBOR serializable: object"):
        dumps({"a": [object()]})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="no form in JSON"):
        dumps([number])


@pytest.mark.parametrize(
    ("data", "tree"),
    [
        ("d9d9f7a0", {}),
        ("d9d9f7d9d9f7d9d9f780", []),
        ("9f9f8080ff9f8080ffff", [[[], []], [[], []]]),
        ("bf6141bf616101616202ff6142bf616901616a02ffff", {"A": {"a": 1, "b": 2}, "B": {"i": 1, "j": 2}}),
        ("7f616161626163ff", "abc"),
        ("5fff", ""),
        ("a143414243187b", {"ABC": 123}),
        ("a1f600", {"": 0}),  # Go leaves the key as it is
        ("f94200", 3.0),
        ("fa7f7fffff", 3.4028234663852886e38),
        ("d64401020304", "AQIDBA=="),  # base64 is expected later
        ("d54401fffe04", "Af_-BA"),
        ("d74401020304", "01020304"),
        ("d682430102038143010203", ["AQID", ["AQID"]]),
        ("d681d743010203", ["010203"]),  # the inner one applies
        ("c074323030362d30312d30325431353a30343a30355a", "2006-01-02T15:04:05Z"),
        ("c11a43b940e5", "2006-01-02T15:04:05Z"),
        ("c120", "1969-12-31T23:59:59Z"),
        ("c1f93e00", "1970-01-01T00:00:01.5Z"),
        ("c1f9be00", "1969-12-31T23:59:58.5Z"),
        ("c1fbbfb999999999999a", "1969-12-31T23:59:59.9Z"),
        ("c11b0000003afff4417f", "9999-12-31T23:59:59Z"),
        ("c13b0000000e79747bff", "0000-01-01T00:00:00Z"),
        ("1b7fffffffffffffff", (1 << 63) - 1),
        ("3b7fffffffffffffff", -(1 << 63)),
        ("c48221196ab3", [-2, 27315]),  # tags without a meaning here
        ("d81c81d81d00", [0]),  # no values are shared
        ("c66161", "a"),
        ("42c328", "\ufffd("),  # a byte string need not be UTF-8
        ("40", ""),
    ],
)
def test_what_is_accepted(data: str, tree: Any) -> None:
    assert loads(bytes.fromhex(data)) == tree


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "EOF"),
        ("61", "unexpected EOF"),
        ("82", "unexpected EOF"),
        ("8201", "unexpected EOF"),
        ("19ff", "unexpected EOF"),
        ("d9d9f7", "unexpected EOF"),
        ("9b0000000040000000", "unexpected EOF"),  # nothing is reserved for a length
        ("5b7fffffffffffffff", "unexpected EOF"),
        ("f8", "unexpected EOF"),
        ("c2", "unexpected EOF"),
        ("5f4161", "unexpected EOF"),
        ("9b0000010000000000", "cbor: exceeded max number of elements 2147483647 for CBOR array"),
        ("bb0000010000000000", "cbor: exceeded max number of key-value pairs 2097152 for CBOR map"),
        ("9bffffffffffffffff", "cbor: array length 18446744073709551615 is too large, it would cause integer overflow"),
        ("5bffffffffffffffff", "cbor: byte string length 18446744073709551615 is too large, causing integer overflow"),
        ("0000", "cbor: 1 bytes of extraneous data starting at index 1"),
        ("9a80000000", "cbor: exceeded max number of elements 2147483647 for CBOR array"),
        ("9a7fffffff", "unexpected EOF"),
        ("ba00200001", "cbor: exceeded max number of key-value pairs 2097152 for CBOR map"),
        ("ba00200000", "unexpected EOF"),
        ("9b7fffffffffffffff", "cbor: exceeded max number of elements 2147483647 for CBOR array"),
        ("5b8000000000000000", "cbor: byte string length 9223372036854775808 is too large, causing integer overflow"),
        ("bb8000000000000000", "cbor: map length 9223372036854775808 is too large, it would cause integer overflow"),
        ("ff", 'cbor: unexpected "break" code'),
        ("81ff", 'cbor: unexpected "break" code'),
        ("bf4161ff", 'cbor: unexpected "break" code'),
        ("9fc6ff", 'cbor: unexpected "break" code'),
        ("1c", "cbor: invalid additional information 28 for type positive integer"),
        ("1e", "cbor: invalid additional information 30 for type positive integer"),
        ("1f", "cbor: invalid additional information 31 for type positive integer"),
        ("df", "cbor: invalid additional information 31 for type tag"),
        ("f81f", "cbor: invalid simple value 31 for type primitives"),
        ("f810", "cbor: invalid simple value 16 for type primitives"),
        ("7f4161ff", "cbor: wrong element type byte string for indefinite-length UTF-8 text string"),
        ("5f5fffff", "cbor: indefinite-length byte string chunk is not definite-length"),
        ("c24101", "cbor: data item of cbor type tag is not accepted by protocol: bignum"),
        ("c34101", "cbor: data item of cbor type tag is not accepted by protocol: bignum"),
        ("f97e00", PROTOCOL + "floating-point NaN"),
        ("fb7ff0000000000000", PROTOCOL + "floating-point infinity"),
        ("81faff800000", PROTOCOL + "floating-point infinity"),
        ("81" * 1_000_000, "cbor: exceeded max nested level 10000"),
        ("c6" * 1_000_000, "cbor: exceeded max nested level 10000"),
    ],
)
def test_what_is_not_well_formed(data: str, message: str) -> None:
    with pytest.raises(CBORError) as caught:
        loads(bytes.fromhex(data))
    assert str(caught.value) == message
    assert not isinstance(caught.value, Unacceptable)


@pytest.mark.parametrize(
    ("data", "message", "outermost"),
    [
        ("a2414101614102", 'cbor: found duplicate map key "A" at map element index 1', True),
        (
            "a25f426865436c6c6fff015f416844656c6c6fff02",
            'cbor: found duplicate map key "hello" at map element index 1',
            True,
        ),
        ("a14161a3416201416302416203", 'cbor: found duplicate map key "b" at map element index 2', False),
        ("a1618000", "cbor: invalid UTF-8 string", True),
        ("a141616180", "cbor: invalid UTF-8 string", False),
        ("a1fb40091eb851eb851f63706965", "cbor: cannot unmarshal primitives into Go value of type string", True),
        ("a10000", "cbor: cannot unmarshal positive integer into Go value of type string", True),
        ("a1820102f6", "cbor: cannot unmarshal array into Go value of type string", True),
        ("f7", PROTOCOL + "simple value 23 is not recognized", True),
        ("8120f8ff", "cbor: 2 bytes of extraneous data starting at index 2", None),
        ("81f8ff", PROTOCOL + "simple value 255 is not recognized", False),
        ("f820", PROTOCOL + "simple value 32 is not recognized", True),
        *(
            (
                data,
                "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: "
                "Time.MarshalText: year outside of range [0,9999]",
                True,
            )
            for data in ("c11b0000003afff44180", "c13b0000000e79747c00")
        ),
        (
            "1b8000000000000000",
            "cbor: cannot unmarshal positive integer into Go value of type int64 "
            "(9223372036854775808 overflows Go's int64)",
            True,
        ),
        (
            "3b8000000000000000",
            "cbor: cannot unmarshal negative integer into Go value of type int64 "
            "(-9223372036854775809 overflows Go's int64)",
            True,
        ),
        (
            "1bffffffffffffffff",
            "cbor: cannot unmarshal positive integer into Go value of type int64 "
            "(18446744073709551615 overflows Go's int64)",
            True,
        ),
        (
            "813bffffffffffffffff",
            "cbor: cannot unmarshal negative integer into Go value of type int64 "
            "(-18446744073709551616 overflows Go's int64)",
            False,
        ),
        ("c04161", "cbor: tag number 0 must be followed by text string, got byte string", True),
        ("c16161", "cbor: tag number 1 must be followed by integer or floating-point number, got UTF-8 text string", True),
        (
            "c06474657874",
            'cbor: cannot set text for time.Time: parsing time "text" as "2006-01-02T15:04:05Z07:00": '
            'cannot parse "text" as "2006"',
            True,
        ),
        (
            "c11b0000003afff44181",
            "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: "
            "Time.MarshalText: year outside of range [0,9999]",
            True,
        ),
    ],
)  # fmt: skip
def test_what_is_well_formed_but_refused(data: str, message: str, outermost: bool | None) -> None:
    with pytest.raises(CBORError) as caught:
        loads(bytes.fromhex(data))
    assert str(caught.value) == message
    assert getattr(caught.value, "outermost", None) is outermost


def test_a_refused_text_must_be_well_formed_to_its_end() -> None:
    with pytest.raises(CBORError, match=r"^unexpected EOF$"):
        loads(bytes.fromhex("a3414101414102"))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        tree = loads(data)
    except ValueError:
        return
    assert loads(dumps(tree)) == tree


@given(TREES, st.data())
def test_a_text_that_was_cut_is_refused(tree: Any, data: Any) -> None:
    whole = dumps(tree)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CBORError, match="EOF"):
        loads(whole[:cut])


def test_the_depth_is_limited() -> None:
    assert loads(b"\x81" * MAX_DEPTH + b"\x00")
    with pytest.raises(CBORError, match="exceeded max nested level"):
        loads(b"\x81" * (MAX_DEPTH + 1) + b"\x00")


def test_a_short_text_may_not_become_many_objects() -> None:
    many = b"\x9f" + b"\x80" * 1000 + b"\xff"
    assert len(loads(many, 3003)) == 1000
    with pytest.raises(TooManyParts):
        loads(many, 3000)


def test_a_tree_in_diagnostic_notation() -> None:
    tree = {"a": [1, -2, 1.5, None, True], "it's": 'x"y'}
    assert notation(tree) == """{'a': [1, -2, 1.5, null, true], 'it\\'s': 'x"y'}"""


MANY = {
    "numbers": b"\x9f" + b"\x18\x64" * 5000 + b"\xff",
    "small numbers": b"\x9f" + b"\x00" * 5000 + b"\xff",
    "lists": b"\x9f" + b"\x80" * 5000 + b"\xff",
    "keys": b"\xbf" + b"".join(b"\x44%04x\x00" % number for number in range(5000)) + b"\xff",
    "chunks": b"\x5f" + b"\x41a" * 5000 + b"\xff",
    "tags": b"\xc6" * 5000 + b"\x00",
    "what is no UTF-8": b"\x9f" + b"\x42\xc3\x28" * 5000 + b"\xff",
    "refused": b"\xbf" + b"\x41a\xf7" * 5000 + b"\xff",
}


@pytest.mark.parametrize("kind", sorted(MANY))
def test_reading_pauses(kind: str) -> None:
    def read() -> None:
        try:
            loads(MANY[kind])
        except Unacceptable:
            pass

    found = stretches(read)
    assert found.longest < 12_000, found.where


@pytest.mark.parametrize("tree", [["x"] * 5000, {str(number): [1.5] for number in range(5000)}], ids=["list", "map"])
def test_writing_pauses(tree: Any) -> None:
    found = stretches(lambda: dumps(tree))
    assert found.longest < 3000, found.where
