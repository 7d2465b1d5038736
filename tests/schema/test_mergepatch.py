"""JSON merge patch: the examples of RFC 7386 and a property."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.machinery.status import BadRequest
from kapi.schema import mergepatch
from tests.examples import examples


@pytest.mark.parametrize(
    ("document", "change", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ],
)
def test_examples(document: Any, change: Any, result: Any) -> None:
    assert mergepatch.apply(document, change) == result


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (7, "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (None, "Invalid JSON Patch"),
    ],
)
def test_what_is_no_object(value: Any, text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        mergepatch.decode(value, strict=True)
    assert caught.value.message == text


@pytest.mark.parametrize("value", [7, "x", True, None])
def test_what_is_neither_an_object_nor_a_list_is_no_patch_without_validation(value: Any) -> None:
    with pytest.raises(BadRequest, match="Invalid JSON Patch"):
        mergepatch.decode(value, strict=False)
    assert mergepatch.decode([1, None, {"a": None}], strict=False) == [1, None, {}]


leaves = st.booleans() | st.integers(-3, 3) | st.text(max_size=2)
objects = st.recursive(
    st.dictionaries(st.sampled_from("abc"), leaves, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | leaves | st.lists(leaves, max_size=2), max_size=3),
    max_leaves=10,
)


@settings(max_examples=examples(80), deadline=None)
@given(objects, objects)
def test_the_difference_leads_to_the_other_object(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert mergepatch.apply(before, mergepatch.difference(before, after)) == after


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": {"b": 1, "c": [1]}}, {"a": {"b": 1, "c": [1]}}, {}),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}, {"a": {"b": 2}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": {"b": 1}}, {}, {"a": None}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": {}}, {"a": {}}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": 1}, {"a": 1.0}, {"a": 1.0}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({}, {"a": {}}, {"a": {}}),
        ({"a": None}, {"a": 1}, {"a": 1}),
    ],
)
def test_a_difference_names_only_what_has_changed(before: Any, after: Any, change: Any) -> None:
    assert repr(mergepatch.difference(before, after)) == repr(change)


@pytest.mark.parametrize(
    ("document", "change", "result"),
    [
        (1, {"a": {"b": None}}, {"a": {}}),
        ({"a": {"b": 1}}, [None], [None]),
        ({"a": None}, {"a": {"b": None}}, {"a": {}}),
        ({"a": [1]}, {"a": {"b": None, "c": [None, {"d": None}]}}, {"a": {"c": [None, {}]}}),
        ({"a": {"b": 1}}, {"a": [{"c": None}]}, {"a": [{"c": None}]}),
        ({"a": 1}, {"a": [{"c": None}]}, {"a": [{}]}),
    ],
)
def test_nulls_stay_only_in_what_replaces_an_object(document: Any, change: Any, result: Any) -> None:
    assert mergepatch.apply(document, change) == result
