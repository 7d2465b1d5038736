"""JSON patch against the public vectors and the limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonpatch as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.machinery import tree
from kapi.machinery.status import BadRequest, Invalid, RequestTooLarge
from kapi.schema import jsonpatch
from tests.examples import examples

VECTORS = Path(__file__).parent.parent / "vectors" / "json-patch-tests"

#: Where upstream's library (evanphx/json-patch v4) departs from the RFC, and so do we: the golden recordings show it.
DEVIATIONS = {
    ("tests.json", 11): "the root cannot be added",
    ("tests.json", 12): "the root cannot be added",
    ("tests.json", 19): "negative indices count from the end",
    ("tests.json", 63): "the root cannot be added",
    ("tests.json", 77): "a missing value is null",
    ("tests.json", 78): "a missing value is null",
    ("tests.json", 79): "a missing value is null",
    ("tests.json", 82): "a missing member of an object is copied as null",
    ("tests.json", 87): "indices may have leading zeros",
    ("tests.json", 88): "indices may have leading zeros",
}


def vectors() -> list[Any]:
    cases = []
    for name in ("tests.json", "spec_tests.json"):
        for number, case in enumerate(json.loads((VECTORS / name).read_text())):
            if "doc" in case and "disabled" not in case:
                cases.append(pytest.param(name, number, case, id=f"{name}-{number}"))
    return cases


@pytest.mark.parametrize(("name", "number", "case"), vectors())
def test_vector(name: str, number: int, case: dict[str, Any]) -> None:
    before = json.dumps(case["doc"])
    try:
        result: Any = jsonpatch.patched(case["doc"], case["patch"])
        failed = False
    except jsonpatch.PatchError:
        result, failed = None, True
    assert json.dumps(case["doc"]) == before, "the document given must not change"
    as_written = failed if "error" in case else not failed and jsonpatch.same(result, case.get("expected", result))
    assert as_written != ((name, number) in DEVIATIONS)


@pytest.mark.parametrize("sharing", [False, True])
@pytest.mark.parametrize("row", json.loads((VECTORS / "random.json").read_text()))
def test_random_patches(row: dict[str, Any], sharing: bool) -> None:
    before = json.dumps(row["document"])
    try:
        answer: Any = {"result": jsonpatch.patched(row["document"], row["operations"], sharing=sharing)}
    except jsonpatch.PatchError as error:
        answer = {"error": str(error)}
    assert answer == {key: row[key] for key in ("result", "error") if key in row}
    assert json.dumps(row["document"]) == before, "the document given must not change"


def test_only_who_asks_for_it_gets_parts_of_the_given_document() -> None:
    document = {"a": {"b": [1]}, "c": {"d": [2]}}
    operations = [{"op": "add", "path": "/c/e", "value": 3}]
    own: Any = jsonpatch.apply(document, operations)
    own["a"]["b"].append(9)
    own["c"]["d"].append(9)
    assert document == {"a": {"b": [1]}, "c": {"d": [2]}}
    shared: Any = jsonpatch.patched(document, operations, sharing=True)
    assert shared == {"a": {"b": [1]}, "c": {"d": [2], "e": 3}} and shared["a"] is document["a"]
    assert document == {"a": {"b": [1]}, "c": {"d": [2]}}


def test_failed_patch_is_unprocessable_without_saying_why() -> None:
    with pytest.raises(Invalid) as caught:
        jsonpatch.apply({"a": 1}, [{"op": "test", "path": "/a", "value": 2}])
    assert caught.value.status["message"] == "the server rejected our request due to an error in our request"
    assert caught.value.code == 422 and caught.value.status["details"] == {}


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ({"op": "frob", "path": "/a"}, "Unexpected kind: frob"),
        ({"path": "/a"}, "Unexpected kind: unknown"),
        ({"op": "add"}, "add operation failed to decode path: missing value"),
        ({"op": "remove", "path": "/z"}, "error in remove for path: '/z': Unable to remove nonexistent key: z: missing value"),
        ({"op": "remove", "path": "data"}, 'remove operation does not apply: doc is missing path: "data": missing value'),
        ({"op": "add", "path": "/l/7", "value": 1},
         "error in add for path: '/l/7': Unable to access invalid index: 7: invalid index referenced"),
        ({"op": "replace", "path": "/l/-", "value": 1},
         "replace operation does not apply: doc is missing key: /l/-: missing value"),
        ({"op": "move", "path": "/a"},
         "move operation failed to decode from: operation, missing from field: missing value"),
    ],
)  # fmt: skip
def test_texts(operation: dict[str, Any], text: str) -> None:
    with pytest.raises(jsonpatch.PatchError) as caught:
        jsonpatch.patched({"a": 1, "l": [1, 2]}, [operation])
    assert str(caught.value) == text


def test_replace_creates_missing_members_of_objects() -> None:
    assert jsonpatch.patched({}, [{"op": "replace", "path": "/z", "value": 1}]) == {"z": 1}


def test_ten_thousand_operations_and_no_more() -> None:
    operation = {"op": "add", "path": "/a", "value": 1}
    assert len(jsonpatch.decode([operation] * 10_000, strict=True)[0]) == 10_000
    with pytest.raises(RequestTooLarge) as caught:
        jsonpatch.decode([operation] * 10_001, strict=True)
    assert caught.value.message == "The allowed maximum operations in a JSON patch is 10000, got 10001"


def test_copies_are_bounded() -> None:
    operations = [{"op": "copy", "from": "/a", "path": f"/a/{i}"} for i in range(40)]
    with pytest.raises(jsonpatch.PatchError, match="Unable to complete the copy, the accumulated size increase"):
        jsonpatch.patched({"a": {"x": "y" * 100}}, operations)


def test_three_mebibytes_may_be_copied() -> None:
    largest, copy = "y" * (3 * 1024 * 1024 - 2), [{"op": "copy", "from": "/a", "path": "/b"}]  # with the quotes
    assert jsonpatch.patched({"a": largest}, copy) == {"a": largest, "b": largest}
    with pytest.raises(jsonpatch.PatchError, match="of copy is 3145729, exceeding the limit 3145728"):
        jsonpatch.patched({"a": largest + "y"}, copy)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"op": "add"}, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (["x"], "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}],
         "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ],
)  # fmt: skip
def test_malformed_documents(document: Any, text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        jsonpatch.decode(document, strict=True)
    assert caught.value.message == text


def test_unknown_fields_are_strict_errors_only() -> None:
    operations, unknown = jsonpatch.decode([{"op": "add", "path": "/a", "value": 1, "from_": "x"}], strict=True)
    assert unknown == ['json patch unknown field "[0].from_"'] and len(operations) == 1


@pytest.mark.parametrize(("name", "number", "case"), vectors())
def test_a_result_that_shares_is_the_same(name: str, number: int, case: dict[str, Any]) -> None:
    before = json.dumps(case["doc"])
    assert _outcome(case["doc"], case["patch"], sharing=True) == _outcome(case["doc"], case["patch"])
    assert json.dumps(case["doc"]) == before, "the document given must not change"


def _outcome(document: Any, operations: Any, **how: Any) -> str:
    """The result as text, in which 1, 1.0 and true are different, or the error."""
    try:
        return json.dumps(jsonpatch.patched(document, operations, **how))
    except jsonpatch.PatchError as error:
        return f"error: {error}"


def test_what_no_operation_reaches_is_shared() -> None:
    document: dict[str, Any] = {"a": {"b": {"c": [1]}, "d": {}}, "e": [{}]}
    given = tree.copy(document)
    operations = [
        {"op": "replace", "path": "/a/b/x", "value": 2}, {"op": "copy", "from": "/a/b", "path": "/a/y"},
        {"op": "add", "path": "/a/y/c/0", "value": 0},
    ]  # fmt: skip
    result = jsonpatch.patched(document, operations, sharing=True)
    assert document == given
    assert result["a"] == {"b": {"c": [1], "x": 2}, "d": {}, "y": {"c": [0, 1], "x": 2}}
    assert result["e"] is document["e"] and result["a"]["d"] is document["a"]["d"]


def test_long_lists_are_lists_in_a_result_that_shares() -> None:
    size = 5000
    document: dict[str, Any] = {"a": [[n] for n in range(size)], "b": {"c": list(range(size))}, "d": []}
    document["a"][7] = list(range(size))
    given = tree.copy(document)
    operations = [
        {"op": "remove", "path": "/a/0"}, {"op": "add", "path": "/a/6/0", "value": "x"}, {"op": "remove", "path": "/b/c/1"},
        {"op": "move", "from": "/b/c", "path": "/a/-"}, {"op": "move", "from": "/a", "path": "/d/-"},
    ]  # fmt: skip
    assert _outcome(document, operations, sharing=True) == _outcome(document, operations)
    assert document == given


keys = st.sampled_from(["a", "b", "c/d", "e~f"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(keys, values, max_size=3), st.dictionaries(keys, values, max_size=3))
def test_a_made_patch_leads_where_it_should(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Patches another library makes have the same effect here."""
    made = oracle.make_patch(before, after).patch
    assert jsonpatch.patched(before, made) == after
    given_before = tree.copy(before)
    assert jsonpatch.patched(before, made, sharing=True) == after
    assert before == given_before


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1, True), (1, 1.0, False), (1, True, False), (None, None, True), (None, {}, False), ("a", "b", False),
        ({"a": 1}, {"a": 1}, True), ({"a": 1}, {"a": 2}, False), ({"a": 1}, {"b": 1}, False), ({"a": None}, {"b": None}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False), ({"a": 1, "b": 2}, {"a": 1}, False), ({}, {}, True), ({}, [], False),
        ([1, 2], [1, 2], True), ([1, 2], [2, 1], False), ([1], [1, 2], False), ([1, 2], [1], False),
        ([{"a": []}], [{"a": {}}], False),
    ],
)  # fmt: skip
def test_what_a_test_of_a_patch_takes_for_equal(one: Any, other: Any, equal: bool) -> None:
    operations, _ = jsonpatch.decode([{"op": "test", "path": "/x", "value": other}], strict=True)
    if equal:
        assert jsonpatch.apply({"x": one}, operations) == {"x": one}
    else:
        with pytest.raises(Invalid):
            jsonpatch.apply({"x": one}, operations)
