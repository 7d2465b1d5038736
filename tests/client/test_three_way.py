"""Patches from three trees: what a manifest says comes, what it no longer says goes, and the rest stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.client.three_way import OpenAPISchema, PatchConflict, three_way_patch

GVK = {"group": "", "version": "v1", "kind": "Thing"}
DOCUMENT: dict[str, Any] = {
    "paths": {
        "/api/v1/things/{name}": {
            "patch": {
                "x-kubernetes-group-version-kind": GVK,
                "requestBody": {"content": {"application/strategic-merge-patch+json": {}}},
            }
        }
    },
    "components": {
        "schemas": {
            "Thing": {
                "x-kubernetes-group-version-kind": [GVK],
                "properties": {
                    "items": {
                        "type": "array",
                        "items": {"allOf": [{"$ref": "#/components/schemas/Item"}]},
                        "x-kubernetes-patch-merge-key": "name",
                        "x-kubernetes-patch-strategy": "merge,retainKeys",
                    },
                    "marks": {"type": "array", "x-kubernetes-patch-strategy": "merge"},
                    "plain": {"type": "array"},
                    "how": {"x-kubernetes-patch-strategy": "retainKeys"},
                    "whole": {"x-kubernetes-patch-strategy": "replace"},
                },
            },
            "Item": {"properties": {"name": {}, "value": {}}},
        }
    },
}
Trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 3)
    | st.sampled_from(["a", "b"])
    | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
Objects = st.dictionaries(st.sampled_from("abcd"), Trees.filter(lambda value: value is not None), max_size=4)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


@given(Objects, Objects, Objects)
def test_a_second_time_there_is_nothing_to_do(original: Any, modified: Any, current: Any) -> None:
    modified, current = without_nulls(modified), without_nulls(current)
    result = merged(current, three_way_patch(original, modified, current))
    assert three_way_patch(modified, modified, result) == {}


@given(Objects, Objects, Objects)
def test_keys_of_no_manifest_stay_and_those_no_longer_said_go(original: Any, modified: Any, current: Any) -> None:
    current = without_nulls(current)
    result = merged(current, three_way_patch(original, without_nulls(modified), current))
    for key in current:
        if key not in original and key not in modified:
            assert result[key] == current[key]
    assert not [key for key in original if key not in modified and key in result]


def strategic(original: Any, modified: Any, current: Any) -> Any:
    schema = OpenAPISchema.of_kind(DOCUMENT, "", "v1", "Thing")
    assert schema is not None
    return three_way_patch(original, modified, current, schema)


def item(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


CASES = [
    ("items", [item("a", value=1)], [item("a", value=2)], [item("a", value=1, live=1), item("b")],
     {"$setElementOrder/items": [item("a")], "items": [item("a", value=2) | {"$retainKeys": ["name", "value"]}]}),
    ("items", [item("a"), item("b")], [item("b")], [item("a"), item("b")],
     {"$setElementOrder/items": [item("b")], "items": [{"$patch": "delete", "name": "a"}]}),
    ("items", [item("a", value=1)], [item("a")], [item("a", value=1)],
     {"$setElementOrder/items": [item("a")], "items": [item("a", value=None) | {"$retainKeys": ["name"]}]}),
    ("items", [], [item("b"), item("a")], [item("a"), item("b")], {"$setElementOrder/items": [item("b"), item("a")]}),
    ("items", [item("a")], [item("a")], [item("a", live=None)], {}),
    ("items", [item("a")], [item("a")], [item("a", live=1)],
     {"$setElementOrder/items": [item("a")], "items": [item("a") | {"$retainKeys": ["name"]}]}),
    ("marks", ["x", "y"], ["y", "z"], ["x", "y", "live"],
     {"$setElementOrder/marks": ["y", "z"], "marks": ["z"], "$deleteFromPrimitiveList/marks": ["x"]}),
    ("marks", ["x"], [], ["x"], {"$deleteFromPrimitiveList/marks": ["x"]}),
    ("items", [item("a")], [], [item("a")], {"items": [{"$patch": "delete", "name": "a"}]}),
    ("plain", [1], [1, 2], [1, 3], {"plain": [1, 2]}),
    ("how", {"a": 1}, {"b": 1}, {"a": 1}, {"how": {"a": None, "b": 1, "$retainKeys": ["b"]}}),
    ("how", {"a": 1}, {"a": 1}, {"a": 1, "b": 1}, {"how": {"$retainKeys": ["a"]}}),
    ("how", {}, {}, {"a": 1}, {}),
    ("whole", {"a": 1}, {"b": 1}, {"a": 1}, {"whole": {"b": 1, "$patch": "replace"}}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "old", "new", "now", "patch"), CASES)
def test_lists_and_directives(key: str, old: Any, new: Any, now: Any, patch: Any) -> None:
    assert strategic({key: old}, {key: new}, {key: now}) == patch


EXCLUSIVE = [
    ("plain", [1], [2], [3], True),
    ("plain", [1], [2, 3], [3, 2], False),
    ("plain", [1], [2], [2, 3], True),
    ("plain", [1], [2], [1], False),
    ("how", {"a": 1}, {"a": 2}, {"a": 1, "b": 1}, False),
    ("how", {"a": 1}, {"a": 2}, {"b": 1}, True),
    ("how", {"a": 1}, {"a": 2}, "text", True),
    ("whole", {"a": 1}, {"a": 2}, {"a": 3}, False),
    ("marks", ["x"], ["y"], ["z"], False),
    ("items", [item("a", value=1)], [item("a", value=2)], [item("a", value=3)], True),
    ("items", [item("a", value=1)], [item("a", value=2)], [item("b"), item("a", value=1)], False),
    ("items", [item("a", value=1)], [item("a", value=2)], [], True),
    ("items", [item("a"), item("b")], [item("b"), item("a")], [item("b"), item("a")], False),
]


@pytest.mark.parametrize(("key", "old", "new", "now", "conflict"), EXCLUSIVE)
def test_what_others_have_changed_is_only_overwritten_on_demand(
    key: str, old: Any, new: Any, now: Any, conflict: bool
) -> None:
    schema = OpenAPISchema.of_kind(DOCUMENT, "", "v1", "Thing")
    trees = {key: old}, {key: new}, {key: now}
    if conflict:
        with pytest.raises(PatchConflict) as caught:
            three_way_patch(*trees, schema, overwrite=False)
        assert caught.value.patch == strategic(*trees)
        assert key in caught.value.changes and f"$setElementOrder/{key}" not in caught.value.changes
        return
    assert three_way_patch(*trees, schema, overwrite=False) == strategic(*trees)


def test_merge_patches_overwrite() -> None:
    assert three_way_patch({"a": 1}, {"a": 2}, {"a": 3}, overwrite=False) == {"a": 2}


def test_an_item_without_its_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not contain declared merge key: name"):
        strategic({}, {"items": [{}]}, {"items": []})


def test_a_kind_that_takes_no_strategic_patches_has_no_schema() -> None:
    assert OpenAPISchema.of_kind({**DOCUMENT, "paths": {}}, "", "v1", "Thing") is None
    assert OpenAPISchema.of_kind(DOCUMENT, "", "v1", "Other") is None
