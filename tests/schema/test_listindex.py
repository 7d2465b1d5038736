"""Items of a strategic merge patch's lists are found as a walk over the list finds them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.machinery.gvk import GroupVersionKind
from kapi.schema import strategicmerge
from kapi.schema.builtin import type_of
from kapi.schema.listindex import Index, PatchError, mark

VALUES = st.recursive(
    st.sampled_from(["a", "b", "", None, 1, 1.0, True, False, 0]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
ITEMS = st.lists(st.dictionaries(st.sampled_from(["name", "image"]), VALUES) | st.sampled_from(["text", 1]), max_size=8)


@given(VALUES, VALUES)
def test_marks_are_equal_when_values_are(one: Any, other: Any) -> None:
    assert (mark(one) == mark(other)) == (one == other)
    assert one != other or hash(mark(one)) == hash(mark(other))


def walked(items: list[Any], value: Any) -> int | str:
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            return f"value for key {i} is not a map"
        if "name" in item and item["name"] == value and type(item["name"]) is type(value):
            return i
    return -1


@given(ITEMS, VALUES)
def test_the_first_item_with_the_key_is_found(items: list[Any], value: Any) -> None:
    try:
        found: int | str = Index(items, "name").find(value)
    except PatchError as error:
        found = str(error)
    assert found == walked(items, value)


@pytest.mark.parametrize("nulls", range(4))
def test_a_null_that_takes_the_merge_key_away_leaves_the_next_item(nulls: int) -> None:
    """What is merged into an item by a null key loses the key; the next null finds the next item."""
    items: list[Any] = [{"name": None, "at": at} for at in range(3)]
    index = Index(items, "name")
    for at in range(nulls):
        found = index.find(None)
        assert found == (at if at < 3 else -1)
        if found >= 0:
            del items[found]["name"]
            index.check(found, None)


def test_deletions_leave_the_others_in_their_order() -> None:
    owners = [{"uid": f"u{number}", "name": "n"} for number in range(30_000)]
    change = [{"$patch": "delete", "uid": f"u{number}"} for number in range(0, 30_000, 2)]
    type_ = type_of(GroupVersionKind("", "v1", "ConfigMap"))
    document, patch = {"metadata": {"ownerReferences": owners}}, {"metadata": {"ownerReferences": change}}
    left = strategicmerge.patched(document, patch, type_)
    assert left["metadata"]["ownerReferences"] == owners[1::2]
