"""Strategic merge patch against upstream's cases and the texts of its errors."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapi.machinery.status import BadRequest, StatusError
from kapi.machinery.tree import Object
from kapi.schema import strategicmerge
from kapi.schema.types import Field, Kind, Type

VECTORS = Path(__file__).parent.parent / "vectors" / "strategicpatch"


def merge_item() -> Type:
    """The type of upstream's cases (swagger-merge-item.json)."""
    text, number = Type(Kind.STRING), Type(Kind.INTEGER)
    texts = Type(Kind.MAP, elem=text)
    item, retaining = Type(Kind.STRUCT, name="MergeItem"), Type(Kind.STRUCT, name="RetainKeysMergeItem")

    def lists(of: Type) -> Type:
        return Type(Kind.LIST, elem=of)

    for type_ in (item, retaining):
        fields = [
            Field("name", text),
            Field("value", text),
            Field("other", text),
            Field("simpleMap", texts),
            Field("mergingList", lists(item), patch_strategy="merge", patch_merge_key="name"),
            Field("nonMergingList", lists(item)),
            Field("mergingIntList", lists(number), patch_strategy="merge"),
        ]
        if type_ is item:
            fields += [
                Field("nonMergingIntList", lists(number)),
                Field("mergeItemPtr", item, patch_strategy="merge", patch_merge_key="name"),
                Field("replacingItem", Type(Kind.ANY, name="RawExtension"), patch_strategy="replace"),
                Field("retainKeysMap", retaining, patch_strategy="retainKeys"),
                Field("retainKeysMergingList", lists(item), patch_strategy="merge,retainKeys", patch_merge_key="name"),
            ]
        type_.fields.update({field.name: field for field in fields})
    return item


ITEM = merge_item()


def load(value: Any) -> Any:
    return (yaml.load(value, yaml.CSafeLoader) if isinstance(value, str) else value) or {}


def cases() -> list[Any]:
    found = []
    for name in ("raw-cases", "customStrategicMergePatchTestCaseData", "createStrategicMergePatchTestCaseData"):
        document = yaml.load((VECTORS / f"{name}.yaml").read_text(), yaml.CSafeLoader)
        for i, case in enumerate(document if isinstance(document, list) else document["testCases"]):
            lower = {key[0].lower() + key[1:]: value for key, value in case.items()}
            two_way = lower.get("twoWayResult", lower.get("modified"))
            steps = [("original", "twoWay", two_way), ("current", "threeWay", lower.get("result"))]
            for start, change, result in steps:
                if change in lower and (result is not None or "expectedError" in lower):
                    found.append(
                        pytest.param(
                            load(lower.get(start)),
                            load(lower[change]),
                            load(result),
                            lower.get("expectedError"),
                            id=f"{name}-{i}-{change}",
                        )
                    )
    return found  # fmt: skip


@pytest.mark.parametrize(("document", "change", "result", "error"), cases())
def test_vector(document: Any, change: Any, result: Any, error: str | None) -> None:
    given = copy.deepcopy(document)
    change = copy.deepcopy(change)
    if error:
        with pytest.raises(strategicmerge.PatchError, match=error):
            strategicmerge.patched(document, change, ITEM)
    else:
        assert strategicmerge.patched(document, change, ITEM) == result
    assert document == given, "the document must not change"


@pytest.mark.parametrize("row", json.loads((VECTORS / "random.json").read_text()))
def test_random_patches(row: Object) -> None:
    document = copy.deepcopy(row["document"])
    try:
        answer: Object = {"result": strategicmerge.apply(document, copy.deepcopy(row["change"]), ITEM)}
    except StatusError as error:
        answer = {"error": error.message}
    assert answer == {key: row[key] for key in ("result", "error") if key in row}
    assert document == row["document"], "the document must not change"


@pytest.mark.parametrize(
    ("document", "change", "left"),
    [
        ({"simpleMap": {"a": "b"}}, {"simpleMap": {"$patch": "replace", "c": "d"}}, {"simpleMap": {"c": "d"}}),
        ({}, {"simpleMap": {"a": None, "b": "c"}, "name": None}, {"simpleMap": {"b": "c"}, "name": None}),
        ({}, {"mergingList": [{"$patch": "delete"}]}, {"mergingList": [{"$patch": "delete"}]}),
        ({}, {"simpleMap": {"l": [{"$patch": "delete"}, {"a": None}], "m": {"$patch": "replace"}}}, {"simpleMap": {"l": [{}]}}),
        ({"retainKeysMap": {"a": 1}}, {"retainKeysMap": {"$retainKeys": ["b"], "b": 1}}, {"retainKeysMap": {"b": 1}}),
        ({"mergingIntList": [1]}, {"$setElementOrder/mergingIntList": [2, 1], "mergingIntList": [2]}, {}),
    ],
)  # fmt: skip
def test_what_an_application_uses_up_is_taken_from_the_patch(document: Any, change: Any, left: Any) -> None:
    """Upstream quotes the patch after its application."""
    strategicmerge.patched(document, change, ITEM)
    assert change == left


@pytest.mark.parametrize(
    ("items", "order", "found"),
    [
        ("ba", "ab", "ab"), ("xa", "a", "ax"), ("ax", "a", "xa"), ("xab", "ab", "abx"), ("cab", "abc", "abc"),
        ("bxa", "ab", "axb"),
    ],
)  # fmt: skip
def test_items_without_a_place_move_as_in_an_insertion_sort(items: str, order: str, found: str) -> None:
    """As Go sorts with upstream's comparison, in which an item without a place is less than any other."""
    assert "".join(map(str, strategicmerge.in_order(list(items), [], list(order), [], ""))) == found


def test_a_patch_that_replaces_everything_is_not_the_result_itself() -> None:
    change = {"$patch": "replace", "name": "a"}
    result = strategicmerge.patched({"name": "b"}, change, ITEM)
    assert result == change == {"name": "a"}
    assert result is not change


@pytest.mark.parametrize(
    ("document", "change", "code", "text"),
    [
        ({}, {"$patch": "frob"}, 500, "unknown patch type: frob in map: map[$patch:frob]"),
        ({"mergingList": [{"name": "a"}]}, {"mergingList": [{"name": "a", "$patch": "frob"}]}, 500,
         "unknown patch type: frob in map: map[$patch:frob name:a]"),
        ({"mergingList": [{"name": "a"}]}, {"mergingList": [{"value": "x"}]}, 500,
         "map: map[value:x] does not contain declared merge key: name"),
        ({"mergingList": [{"name": "a"}]}, {"mergingList": [{"name": "a", "$patch": "merge"}]}, 500,
         "merging lists cannot yet be specified in the patch"),
        ({"retainKeysMap": {"name": "a"}}, {"retainKeysMap": {"$retainKeys": ["value"], "name": "b"}}, 400,
         "invalid patch format of retainKeys"),
        ({}, {"$deleteFromPrimitiveList": [1]}, 400, "invalid patch format of primitive list"),
        ({"mergingList": [{"name": "c1"}]},
         {"$setElementOrder/mergingList": [{"name": "c2"}], "mergingList": [{"name": "c1", "image": "x"}]}, 500,
         "The order in patch list:\n[map[image:x name:c1]]\n doesn't match $setElementOrder list:\n[map[name:c2]]\n"),
    ],
)  # fmt: skip
def test_texts(document: Any, change: Any, code: int, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        strategicmerge.apply(document, change, ITEM)
    assert (caught.value.code, caught.value.message) == (code, text)


def test_a_patch_is_an_object() -> None:
    with pytest.raises(BadRequest) as caught:
        strategicmerge.decode([1])
    assert caught.value.message == "json: cannot unmarshal array into Go value of type map[string]interface {}"
