"""Large texts are read in steps, with the same result and the same words for what is wrong."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.codecs import json_reading
from kapi.codecs.json_reading import SteppingDecoder
from tests.growth.counting import stretches

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def outcome(text: str, **how: Any) -> Any:
    try:
        return json.loads(text, object_pairs_hook=list, parse_float=str, parse_int=repr, **how)
    except json.JSONDecodeError as error:
        return error.msg, error.pos


@given(TREES, st.sampled_from([None, 1]))
def test_the_same_tree(tree: object, indent: int | None) -> None:
    text = json.dumps(tree, indent=indent)
    assert outcome(text, cls=SteppingDecoder) == outcome(text)


@given(TREES, st.integers(0, 100), st.sampled_from(["", ",", "}", "]", '"', ":", "x", "\n", "1", "\\"]))
def test_the_same_words_for_what_is_wrong(tree: object, place: int, put: str) -> None:
    text = json.dumps(tree)
    place %= len(text)
    for broken in (text[:place], text[:place] + put + text[place:], text[:place] + put + text[place + 1 :]):
        assert outcome(broken, cls=SteppingDecoder) == outcome(broken)


@pytest.mark.parametrize(
    "text",
    [
        "{" + ",".join(f'"k{number}":"v"' for number in range(3000)) + "}",
        "{" + ",".join(f'"k{number}":{number}' for number in range(3000)) + "}",
        '{"a":[' + ",".join(["null"] * 3000) + "]}",
        "[" + ",".join(["{}"] * 3000) + "]",
        '{"a":[' + ",".join(["null"] * 3000) + ",]}",
    ],
    ids=["texts", "numbers", "nulls", "objects", "malformed"],
)
def test_others_may_work_while_a_text_is_read(text: str) -> None:
    def work() -> None:
        try:
            json_reading.loads_exactly(text.encode())
        except json_reading.JSONError:
            pass

    with patch.object(json_reading, "LARGE", 1000):
        found = stretches(work)
    assert found.longest < 6000, found.where


def test_what_is_deeper_than_the_steps_go_is_read_at_once() -> None:
    text = '{"a":' * 300 + "1" + "}" * 300
    with patch.object(json_reading, "LARGE", 0):
        found: list[Any] = []
        stretches(lambda: found.append(json_reading.loads_exactly(text.encode())))
    assert found == [json.loads(text)]
