"""Values against structural schemas: large ones give way in time, long enums are found at once and say the same."""

from __future__ import annotations

import functools
import time
from typing import Any

import pytest

from kapi.cel import TimeExceeded
from kapi.schema.structural.values import value_errors

Object = dict[str, Any]


def test_a_validation_that_takes_long_gives_way() -> None:
    """Alternatives within alternatives: the work doubles with each level."""
    bomb: Object = functools.reduce(lambda inner, _: {"anyOf": [inner, inner]}, range(16), {"required": ["x"]})
    began = time.process_time()
    with pytest.raises(TimeExceeded):
        value_errors([{}] * 100, {"type": "array", "items": bomb}, seconds=0.02)
    assert time.process_time() - began < 1


def test_without_a_limit_a_validation_ends_with_its_errors() -> None:
    errors = value_errors([1] * 1000, {"type": "array", "items": {"type": "string"}})
    assert len(errors) == 1000


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("v7", True),
        ("v99", False),
        (1, True),
        (1.0, True),
        (2.5, True),
        (3, False),
        ({"b": 2, "a": 1}, True),
        ({"a": 1}, False),
        ([1, "x"], True),
        (None, True),
        (True, False),
    ],
)
def test_a_long_enum_says_what_a_short_one_does(value: Any, good: bool) -> None:
    short = [1, 2.5, {"a": 1, "b": 2}, [1, "x"], None, "v7"]
    schema: Object = {"enum": short, "nullable": True}
    assert (value_errors(value, schema) == []) is good
    schema["enum"] = [*short, *(f"v{number}" for number in range(50))]
    assert (value_errors(value, schema) == []) is good
