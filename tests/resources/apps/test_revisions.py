"""ControllerRevision: its data is a text that never changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.machinery.raw import RawObject, member_text, text_of
from kapi.testing.memory_api import MemoryAPI, succeed

PATH = "/apis/apps/v1/namespaces/n/controllerrevisions"
MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"
IMMUTABLE = 'data: Invalid value: {"a":[1]}: field is immutable'


def posted(data: str) -> MemoryAPI:
    api = succeed(MemoryAPI.started())
    assert api.ask("POST", PATH, '{"metadata": {"name": "r"}, "data": %s, "revision": 1}' % data).code == 201  # noqa: UP031
    return api


def labelled(api: MemoryAPI) -> tuple[int, str]:
    answer = api.ask("PATCH", PATH + "/r", {"metadata": {"labels": {"l": "v"}}}, type=MERGE)
    return answer.code, answer.json.get("message", "")


def test_a_patch_keeps_what_was_written_compactly() -> None:
    api = posted('{"a":[1]}')
    assert labelled(api)[0] == 200
    assert api.ask("GET", PATH + "/r").json["data"] == {"a": [1]}


@pytest.mark.parametrize(
    "data", ['{"a":1E5}', '{"a":-0}', '{"a":0.1e-7}', '{"a":18446744073709551617}', '{"b":1,"a":"\\u0061"}']
)
@pytest.mark.parametrize(
    ("type_", "patch"),
    [
        (MERGE, {"metadata": {"labels": {"l": "v"}}}),
        (JSON, [{"op": "add", "path": "/metadata/labels", "value": {"l": "v"}}]),
    ],
)
def test_a_patch_of_something_else_keeps_the_text(data: str, type_: str, patch: object) -> None:
    api = posted(data)
    assert api.ask("PATCH", PATH + "/r", patch, type=type_).code == 200
    assert f'"data":{data}'.encode() in api.ask("GET", PATH + "/r").written


@pytest.mark.parametrize(
    ("type_", "patch"),
    [
        (MERGE, {"apiVersion": ""}),
        (MERGE, {"apiVersion": None}),
        (JSON, [{"op": "remove", "path": "/apiVersion"}]),
        (MERGE, {"data": None}),
    ],
)
def test_a_patch_that_leaves_no_data_is_refused(type_: str, patch: object) -> None:
    api = posted('{"a":1}')
    assert api.ask("PATCH", PATH + "/r", patch, type=type_).code in (400, 422)
    assert api.ask("GET", PATH + "/r").json["data"] == {"a": 1}


@pytest.mark.parametrize("data", ['{"a":"<"}', '{"a":">&"}', '{"a":"\u2028"}', '{"a":1 }'])
def test_a_patch_escapes_and_compacts_the_text(data: str) -> None:
    assert labelled(posted(data))[0] == 422


@pytest.mark.parametrize(
    "operation",
    [{"op": "replace", "path": "/data", "value": {"a": 100000}}, {"op": "add", "path": "/data/a", "value": 100000}],
)
def test_a_json_patch_of_the_data_writes_them_anew(operation: object) -> None:
    assert posted('{"a":1E5}').ask("PATCH", PATH + "/r", [operation], type=JSON).code == 422
    assert posted('{"a":100000}').ask("PATCH", PATH + "/r", [operation], type=JSON).code == 200


def test_a_patch_cannot_write_spaces_again() -> None:
    api = posted('{"a": [1]}')
    code, message = labelled(api)
    assert code == 422 and IMMUTABLE in message


def test_a_put_of_the_same_text_is_no_change_of_it() -> None:
    api = posted('{"a": [1]}')
    same = '{"metadata": {"name": "r", "labels": {"l": "v"}}, "data": {"a": [1]}, "revision": 2}'
    assert api.ask("PUT", PATH + "/r", same).code == 200
    other = api.ask("PUT", PATH + "/r", same.replace('{"a": [1]}', '{"a":[1]}'))
    assert other.code == 422 and IMMUTABLE in other.json["message"]
    assert labelled(api)[0] == 422  # what is stored has its spaces still


def test_another_tree_is_another_text() -> None:
    answer = posted('{"a":[1]}').ask("PATCH", PATH + "/r", {"data": {"b": 2}}, type=MERGE)
    assert answer.json["details"]["causes"][0]["field"] == "data"


SPACES = st.text(" \t\r\n", max_size=2)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.text(max_size=2), TREES, SPACES), max_size=4), SPACES)
def test_members_are_found_in_any_text(members: list[tuple[str, Any, str]], space: str) -> None:
    parts = [
        f"{space}{text_of(key).decode()}{gap}:{gap}{text_of(value).decode()}{space}" for key, value, gap in members
    ]
    data = (space + "{" + ",".join(parts) + "}" + space).encode()
    for key, value in {key: value for key, value, _ in members}.items():
        assert member_text(data, key) == text_of(value)
    assert member_text(data, "absent") is None


def test_a_raw_object_is_its_tree_and_its_text() -> None:
    raw = RawObject({"a": 1}, b'{ "a": 1 }')
    assert raw == {"a": 1} and text_of(raw) == b'{ "a": 1 }'
