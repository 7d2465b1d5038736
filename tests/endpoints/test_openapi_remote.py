"""Documents of other servers beside our own."""

from __future__ import annotations

import struct
from typing import Any

import orjson
import pytest

from kapi.endpoints.openapi.handler import OpenAPIHandler
from kapi.endpoints.openapi.pieces import Make
from kapi.endpoints.openapi.remote import merge, restricted
from kapi.request.context import RequestContext
from kapi.request.packed import packed
from kapi.request.response import Response
from kapi.resources.catalogue import BUILT_IN
from tests.endpoints.built_in_groups import groups_of
from tests.endpoints.test_discovery import context
from tests.endpoints.test_openapi import answer as answer_of

THING = {
    "type": "object",
    "properties": {"spec": {"$ref": "#/definitions/Spec"}, "again": {"$ref": "#/definitions/Thing"}},
}
THEIRS: dict[str, Any] = {
    "paths": {
        "/apis/a.example.com/v1/things": {
            "parameters": [{"$ref": "#/parameters/pretty-1"}],
            "get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Thing"}}}},
        },
        "/apis/a.example.com/v2/things": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Other"}}}}},
        "/version/": {},
    },
    "definitions": {"Thing": THING, "Spec": {"type": "string"}, "Other": {}, "Unused": {}},
    "parameters": {"pretty-1": {"name": "pretty", "in": "query", "type": "string"}, "unused": {}},
}


def answer(handler: OpenAPIHandler, ctx: RequestContext) -> Response:
    found = answer_of(handler, ctx)
    assert found is not None
    return found


PACKED_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PACKED = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"


def test_only_the_paths_of_the_group_version_count_with_what_they_refer_to() -> None:
    found = restricted(THEIRS, "/apis/a.example.com/v1/")
    assert list(found["paths"]) == ["/apis/a.example.com/v1/things"]
    assert (set(found["definitions"]), set(found["parameters"])) == ({"Thing", "Spec"}, {"pretty-1"})


def test_what_is_ours_stays_and_theirs_of_that_name_gets_another() -> None:
    ours: dict[str, dict[str, Make]] = {
        "definitions": {"Spec": lambda: {"type": "integer"}, "Spec_v2": dict},
        "parameters": {},
    }
    theirs = merge(ours, restricted(THEIRS, "/apis/a.example.com/v1/"))
    definitions = {name: make() for name, make in ours["definitions"].items()}
    assert definitions["Spec"] == {"type": "integer"}
    assert definitions["Spec_v3"] == {"type": "string"}
    assert definitions["Thing"]["properties"]["spec"] == {"$ref": "#/definitions/Spec_v3"}
    assert (list(theirs), list(ours["parameters"])) == (["/apis/a.example.com/v1/things"], ["pretty-1"])


KINDS = "x-kubernetes-group-version-kind"


def kind(group: str) -> dict[str, str]:
    return {"group": group, "version": "v1", "kind": "K"}


def merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, dict[str, Make]] = {
        "definitions": {name: lambda value=value: dict(value) for name, value in ours.items()},  # type: ignore[misc]
        "parameters": {},
    }
    merge(made, {"definitions": theirs, "parameters": {}, "paths": {}})
    return {name: make() for name, make in made["definitions"].items()}


def test_definitions_that_differ_in_their_kinds_are_one_with_the_kinds_of_both() -> None:
    found = merged({"D": {"a": 1, KINDS: [kind("x"), kind("b")]}}, {"D": {"a": 1, KINDS: [kind("c"), kind("b")]}})
    assert found == {"D": {"a": 1, KINDS: [kind("b"), kind("c"), kind("x")]}}
    assert merged({"D": {"a": 1}}, {"D": {"a": 1, KINDS: [kind("c")]}}) == {"D": {"a": 1, KINDS: [kind("c")]}}
    unchanged = {"D": {"a": 1, KINDS: [kind("x"), kind("b")]}}
    assert merged(unchanged, {"D": {"a": 1, KINDS: [kind("b")]}}) == unchanged


def test_a_new_name_is_given_once() -> None:
    ours = {"D": {"a": 1}, "D_v2": {"a": 2}, "D_v3": {"a": 3}}
    assert merged(ours, {"D": {"a": 3}}) == ours
    assert merged(ours, {"D": {"a": 4}}) == {**ours, "D_v4": {"a": 4}}
    assert merged({"D": {"a": 1}}, {"D": [1]}) == {"D": {"a": 1}, "D_v2": [1]}
    assert merged({"D": {"a": 1}}, {"D": {"a": 4}, "D_v2": {}}) == {"D": {"a": 1}, "D_v2": {}, "D_v3": {"a": 4}}


def test_the_definitions_of_a_server_like_ours_are_not_renamed() -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    before = orjson.loads(answer(handler, context("/openapi/v2")).body)
    name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    body = {"in": "body", "name": "body", "schema": {"$ref": f"#/definitions/{name}"}}
    theirs = {**before["definitions"], name: {**before["definitions"][name], KINDS: [kind("a.example.com")]}}
    path = "/apis/a.example.com/v1/things"
    document = {"paths": {path: {"delete": {"parameters": [body]}}}, "definitions": theirs}
    handler.remote.specify("v1.a.example.com", "/apis/a.example.com/v1/", document)
    after = orjson.loads(answer(handler, context("/openapi/v2")).body)
    assert after["definitions"].keys() == before["definitions"].keys()
    assert after["paths"][path]["delete"]["parameters"] == [body]
    assert kind("a.example.com") in after["definitions"][name][KINDS]


def test_their_paths_and_definitions_are_in_the_order_of_their_names() -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    for group in ("zz.example.com", "a.example.com"):
        theirs = orjson.loads(orjson.dumps(THEIRS).replace(b"a.example.com", group.encode()))
        handler.remote.specify(f"v1.{group}", f"/apis/{group}/v1/", theirs)
    found = orjson.loads(answer(handler, context("/openapi/v2")).body)
    for place in ("paths", "definitions", "parameters"):
        assert list(found[place]) == sorted(found[place])
    assert {"/apis/a.example.com/v1/things", "/apis/zz.example.com/v1/things"} <= set(found["paths"])


def test_the_document_of_version_2_has_theirs() -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    before = orjson.loads(answer(handler, context("/openapi/v2")).body)
    handler.remote.specify("v1.a.example.com", "/apis/a.example.com/v1/", THEIRS)
    after = orjson.loads(answer(handler, context("/openapi/v2")).body)
    assert set(after["paths"]) - set(before["paths"]) == {"/apis/a.example.com/v1/things"}
    assert set(after["definitions"]) - set(before["definitions"]) == {"Thing", "Spec"}
    handler.remote.forget("v1.a.example.com")
    assert orjson.loads(answer(handler, context("/openapi/v2")).body) == before


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "thing",
    [{"type": 5}, {"maximum": "much"}, [1], "text", nested(200)],
    ids=["type", "number", "list", "text", "deep"],
)
def test_a_document_that_cannot_be_told_keeps_nobody_from_ours(thing: Any) -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    with pytest.raises(
        (AttributeError, TypeError, ValueError, struct.error)
    ):  # the aggregator takes all for no document
        handler.remote.specify(
            "v1.a.example.com", "/apis/a.example.com/v1/", {**THEIRS, "definitions": {"Thing": thing}}
        )
    found = answer(handler, context("/openapi/v2", accept=PACKED_V2))
    assert (found.status, found.content_type) == (200, PACKED_V2.encode())
    assert b"/apis/a.example.com" not in found.body


def test_what_is_nested_is_told_in_both_forms() -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    document = {**THEIRS, "definitions": {"Thing": nested(99)}}
    handler.remote.specify("v1.a.example.com", "/apis/a.example.com/v1/", document)
    for accept in ("application/json", PACKED_V2):
        assert b"/apis/a.example.com" in answer(handler, context("/openapi/v2", accept=accept)).body


@pytest.mark.parametrize(("accept", "code"), [("application/json", 200), (PACKED, 200), ("text/plain", 406)])
def test_a_document_of_version_3(accept: str, code: int) -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    document = {"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {}}
    handler.remote.documents["apis/a.example.com/v1"] = ("AB", packed(orjson.dumps(document)))
    found = answer(handler, context("/openapi/v3/apis/a.example.com/v1", accept=accept))
    assert found.status == code
    if accept == "application/json":
        assert orjson.loads(found.body) == document
    elif code == 200:
        assert found.content_type == PACKED.encode()
    index = orjson.loads(answer(handler, context("/openapi/v3")).body)["paths"]
    assert index["apis/a.example.com/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/a.example.com/v1?hash=")


@pytest.mark.parametrize(("given", "code"), [([], 200), ([""], 200), (["AB"], 200), (["ABC"], 301)])
def test_a_document_of_version_3_has_the_hash_of_its_url(given: list[str], code: int) -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    handler.remote.documents["apis/a.example.com/v1"] = ("AB", packed(b"{}"))
    ctx = context("/openapi/v3/apis/a.example.com/v1", accept="application/json")
    ctx.query = {"hash": given} if given else {}
    found = answer(handler, ctx)
    headers = dict(found.headers)
    assert (found.status, headers.get(b"location")) == (
        code, b"/openapi/v3/apis/a.example.com/v1?hash=AB" if code == 301 else None,
    )  # fmt: skip
    assert (b"immutable" in headers.get(b"cache-control", b"")) == (code == 200 and bool(given))


def test_a_document_that_is_none_has_no_other_form() -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    handler.remote.documents["apis/x"] = ("A", packed(b"[1]"))
    assert answer(handler, context("/openapi/v3/apis/x", accept=PACKED)).status == 406
    assert answer(handler, context("/openapi/v3/apis/x", accept="application/json")).body == b"[1]"


def test_what_we_serve_is_answered_as_ours() -> None:
    handler = OpenAPIHandler(lambda: groups_of(BUILT_IN))
    handler.remote.documents["apis/apps/v1"] = ("A", packed(b"{}"))
    assert b"deployments" in answer(handler, context("/openapi/v3/apis/apps/v1")).body
