"""Large JSON is read and written in pieces, with the same outcome as in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock, patch

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.codecs import json_pieces
from kapi.machinery import checkpoint

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(max_size=5) | st.sampled_from(['","', "},{", "],[", ',"', "a" * 200, "\\", "[", "]}"])
TREES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(TEXTS, inner, max_size=9),
    max_leaves=60,
)


class Pieces:
    """A slice that notes how much was read or written between two checkpoints."""

    until = float("-inf")

    def __init__(self) -> None:
        self.count = 0

    def pause(self) -> None:
        self.count += 1

    def commit(self) -> None: ...

    def expect_tree(self, size: int) -> None: ...

    def engage(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def slices() -> Iterator[Pieces]:
    found = Pieces()
    with patch.object(checkpoint, "running", found):
        yield found


def small() -> Any:
    """Pieces of a few bytes."""
    return patch.multiple(json_pieces, LARGE=0, _PIECE_BYTES=12, _PIECE_MEMBERS=16)


def outcome(function: Any, data: bytes) -> Any:
    try:
        return function(data)
    except orjson.JSONDecodeError as error:
        return str(error)


def flat(tree: Any) -> list[Any]:
    """What a tree is made of, types and the order of keys included, however deep it is."""
    found, stack = [], [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            found.append(list(node))
            stack.extend(node.values())
        elif isinstance(node, list):
            found.append([len(node)])
            stack.extend(node)
        else:
            found.append(repr(node))
    return found


def same(one: Any, other: Any) -> bool:
    return flat(one) == flat(other)


@given(TREES, st.booleans())
def test_the_same_tree(tree: object, indented: bool) -> None:
    text = orjson.dumps(tree, option=orjson.OPT_INDENT_2 if indented else 0)
    with small():
        assert same(json_pieces.loads(text), orjson.loads(text))


@given(
    TREES,
    st.integers(0, 300),
    st.sampled_from([",", "}", "]", '"', ":", "x", "\n", "1", "\\", "{", "[", "\ufeff", "[]"]),
)
def test_the_same_refusal_of_what_is_wrong(tree: object, place: int, put: str) -> None:
    text = orjson.dumps(tree).decode()
    place %= len(text)
    for broken in (text[:place], text[:place] + put + text[place:], text[:place] + put + text[place + 1 :]):
        with small():
            assert same(outcome(json_pieces.loads, broken.encode()), outcome(orjson.loads, broken.encode()))


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"b":2,"a":3,"c":{"d":1,"d":2},"a":4}',
        b'{"\xff":1,"b":"cccccccccccccc"}',
        b'{"\\ud800":1,"b":"cccccccccccccc"}',
        b'{"b":"cccccccccccccc","c":"\xed\xa0\x80"}',
        b"[1,2,3,4,5,6,7,8,9,]",
        b"[1,2,3,4,5,6,,7,8,9]",
        b"[1,2,3,4,5,6,]",
        b"[1,2,3,4,5,6," + b" " * 50 + b"]",
        b'{"aaaaaaaa":1,"bbbbbbb":2,}',
        b'[{"a":1},{"a":2},{"a":3},]',
        b"[1,2,3,4,5,6,7,8,9 ",
        b" \n[" + b" " * 50 + b"] \t",
        b"[1e400,22222222222222222222222,-0,1.50,1E5]",
        b"[" * 1024 + b"1" + b"]" * 1024,
        b"[" * 1025 + b"1" + b"]" * 1025,
        b'{"a":' * 600 + b'"' + b"b" * 70 + b'"' + b"}" * 600,
    ],
)
def test_the_same_outcome(text: bytes) -> None:
    with small():
        assert same(outcome(json_pieces.loads, text), outcome(orjson.loads, text))


@given(TREES, st.integers(0, 20))
def test_the_same_text(tree: object, depth: int) -> None:
    with small():
        assert json_pieces.dumps(tree, None, depth) == json_pieces.with_long_numbers(orjson.dumps(tree))


@pytest.mark.parametrize("tree", [{"a": [1, {"b": object()}] * 20}, [{"a": "\ud800"}] * 30, {"\ud800": [1] * 30}])
def test_what_cannot_be_written_is_refused(tree: Any) -> None:
    with small(), pytest.raises(orjson.JSONEncodeError):
        json_pieces.dumps(tree)


@pytest.mark.parametrize("levels", [240, 241, 254, 255, 256])
def test_what_is_too_deep_is_refused_as_in_one_piece(levels: int) -> None:
    tree: Any = 1
    for _ in range(levels):
        tree = {"a": tree, "b": [1] * 20}

    def refused(depth: int, write: Any) -> bool:
        try:
            write(tree, depth)
        except TypeError:
            return True
        return False

    def whole(tree: Any, depth: int) -> None:
        for _ in range(depth):
            tree = [tree]
        orjson.dumps(tree)

    for depth in (0, 1, 14):
        with small():
            assert refused(depth, lambda tree, depth: json_pieces.dumps(tree, None, depth)) == refused(depth, whole)


TEXT = "v" * 8
MEMBERS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: list(range(300_000)),
    "texts": lambda: [TEXT] * 200_000,
    "objects": lambda: [{"a": TEXT, "b": [TEXT]} for _ in range(60_000)],
    "nested": lambda: [{"a": [{"b": TEXT}, {"b": TEXT}] * 20} for _ in range(2_000)],
    "keys": lambda: {f"k{number}": TEXT for number in range(150_000)},
    "empty": lambda: [{}] * 300_000,
    "few": lambda: {f"k{number}": {"l": [{"a": [1]}] * 3000} for number in range(30)},
}


@pytest.mark.parametrize("name", MEMBERS)
def test_others_may_work_meanwhile(name: str, slices: Pieces) -> None:
    tree = {"kind": "K", "metadata": {"name": "n"}, "spec": {"template": {name: MEMBERS[name]()}}}
    text = orjson.dumps(tree)
    reads: list[int] = []
    writes: list[int] = []

    def note(into: list[int], function: Any) -> Any:
        def call(value: Any, *more: Any, **how: Any) -> Any:
            result = function(value, *more, **how)
            into.append(len(value) if isinstance(value, bytes) else len(result))
            return result

        return call

    with patch.object(json_pieces, "orjson") as spied:
        spied.JSONDecodeError = orjson.JSONDecodeError
        spied.loads, spied.dumps = note(reads, orjson.loads), note(writes, orjson.dumps)
        assert json_pieces.loads(text) == tree
        assert json_pieces.dumps(tree) == text
    assert max(reads) < 2 * json_pieces._PIECE_BYTES
    assert max(writes) < 2 * json_pieces._PIECE_BYTES
    assert sum(reads) < 1.5 * len(text), "read about once"
    assert slices.count > len(text) / (2 * json_pieces._PIECE_BYTES)


def test_what_is_small_or_in_no_slice_is_read_at_once() -> None:
    with (
        patch.object(json_pieces, "_read", side_effect=AssertionError),
        patch.object(json_pieces, "_write", side_effect=AssertionError),
    ):
        json_pieces.loads(b"[1]")
        with patch.object(checkpoint, "running", None):
            json_pieces.loads(b"[" + b"1," * 300_000 + b"1]")
            json_pieces.dumps([1] * 300_000)


def test_a_large_text_makes_a_small_computation_one_that_may_take_long() -> None:
    """As the answer of a webhook, which is asked about a small object."""
    found = Pieces()
    checkpoint.current, checkpoint.running = found, None
    try:
        json_pieces.loads(b"[1,2]")
        assert checkpoint.running is None
        assert json_pieces.loads(b"[" + b"{}," * json_pieces.LARGE + b"{}]") == [{}] * (json_pieces.LARGE + 1)
    finally:
        checkpoint.current = checkpoint.running = None
    assert found.count > json_pieces.LARGE // json_pieces._PIECE_BYTES


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (-9.223372036854776e18, b"-9223372036854776000"),
        (1e16, b"10000000000000000"),
        (1.8446744073709552e19, b"18446744073709552000"),
        (1.2345678901234567e20, b"123456789012345670000"),
        (9.999999999999999e20, b"999999999999999900000"),
        (1e21, b"1e+21"),
        (-1.5e300, b"-1.5e+300"),
        (1e15, b"1000000000000000.0"),
        (0.5, b"0.5"),
    ],
)
def test_whole_numbers_have_an_exponent_from_where_go_writes_one(number: float, text: bytes) -> None:
    assert json_pieces.dumps({"a": [number, number]}) == b'{"a":[%s,%s]}' % (text, text)
    assert json_pieces.loads(text) == number


def test_a_lack_of_memory_is_no_error_of_the_text() -> None:
    lack = orjson.JSONDecodeError("Not enough memory to allocate buffer for parsing", "", 0)
    with patch.object(
        json_pieces, "orjson", Mock(JSONDecodeError=orjson.JSONDecodeError, loads=Mock(side_effect=lack))
    ):
        with pytest.raises(MemoryError):
            json_pieces.loads(b"[1]")


def test_texts_that_look_like_numbers_stay() -> None:
    tree = {"1e+17": 'a "1e+17" \\', "b": "1e+18", "\\": 1e17, "c": ["\\\\", "2e+18,"]}
    assert json_pieces.dumps(tree) == (
        rb'{"1e+17":"a \"1e+17\" \\","b":"1e+18","\\":100000000000000000,"c":["\\\\","2e+18,"]}'
    )
