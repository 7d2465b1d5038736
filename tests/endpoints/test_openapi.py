"""OpenAPI: every reference leads somewhere, hashes name what changes, negotiation."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import orjson
import pytest
import yaml
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints.openapi import protobuf, protobuf_v3
from kapi.endpoints.openapi.handler import OpenAPIHandler
from kapi.endpoints.openapi.paths import paths
from kapi.endpoints.openapi.schemas import definition_v3
from kapi.filters.chain import FilterChain
from kapi.filters.response_headers import cache_control
from kapi.machinery.checkpoint import in_slices
from kapi.process.slices import Slices
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.catalogue import BUILT_IN
from kapi.serving.run import RequestRunner
from kapi.testing.http import MemoryRequest
from tests.endpoints.built_in_groups import groups_of
from tests.endpoints.test_discovery import context
from tests.protobuf_fields import fields

GROUPS = groups_of(BUILT_IN)
VERSIONS = [(group.name, entry.version) for group in GROUPS for entry in group.versions]


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def handler() -> OpenAPIHandler:
    return OpenAPIHandler(lambda: GROUPS)


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_a_document_of_version_3_stands_on_its_own(group: str, version: str) -> None:
    document = tree_of(f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}")
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= known
    operations = [
        operation["operationId"]
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(operations) == len(set(operations)), "operation ids are unique"


def test_the_document_of_version_2_stands_on_its_own() -> None:
    document = tree_of("/openapi/v2")
    definitions = {f"#/definitions/{name}" for name in document["definitions"]}
    assert set(references(document)) <= definitions | {f"#/parameters/{name}" for name in document["parameters"]}
    assert document["definitions"]["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "Pod", "version": "v1"}
    ]
    assert "/api/v1/namespaces/{namespace}/pods/{name}/log" in document["paths"]


def test_schemas_of_version_3_have_gos_defaults_and_unions() -> None:
    pod = definition_v3("io.k8s.api.core.v1.Pod")["properties"]
    assert pod["spec"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]
    assert pod["spec"]["default"] == {}
    port = definition_v3("io.k8s.api.core.v1.ContainerPort")["properties"]
    assert (port["containerPort"]["default"], port["protocol"]["default"]) == (0, "TCP")
    assert port["protocol"]["enum"] == ["SCTP", "TCP", "UDP"]
    quantity = definition_v3("io.k8s.apimachinery.pkg.api.resource.Quantity")
    assert quantity["oneOf"] == [{"type": "string"}, {"type": "number"}]


def answer(server: OpenAPIHandler, ctx: RequestContext) -> Response | None:
    """The answer with its whole body, made in one go when it must be made."""
    found = server.handle(ctx)
    if found is None:
        return None
    if not isinstance(found, Response):
        steps = found.__await__()
        with pytest.raises(StopIteration) as stop:
            assert next(steps) is in_slices
            next(steps)
        found = stop.value.value
        assert isinstance(found, Response)
    if not isinstance(found.body, bytes):
        found.body = b"".join(found.body)
    return found


def tree_of(path: str, server: OpenAPIHandler | None = None) -> Any:
    found = answer(server or handler(), context(path))
    assert found is not None and found.status == 200
    return orjson.loads(found.body)  # type: ignore[arg-type]  # it is whole


@pytest.mark.parametrize(
    ("path", "place"), [("/openapi/v2", ("definitions",)), ("/openapi/v3/api/v1", ("components", "schemas"))]
)
def test_without_the_gate_no_field_lists_its_values(path: str, place: tuple[str, ...]) -> None:
    with_enums, without = (tree_of(path, OpenAPIHandler(lambda: GROUPS, enums=enums)) for enums in (True, False))
    for part in place:
        with_enums, without = with_enums[part], without[part]
    port = "io.k8s.api.core.v1.ContainerPort"
    before, after = (found[port]["properties"]["protocol"] for found in (with_enums, without))
    assert before["enum"] == ["SCTP", "TCP", "UDP"]
    assert before["description"].startswith(f"{after['description']}\n\nPossible enum values:\n")
    assert after == {key: value for key, value in {**before, **after}.items() if key != "enum"}
    modes = without["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"]["accessModes"]
    assert "enum" not in modes["items"]
    text = orjson.dumps(without)
    assert text.count(b'"enum":[') == 0
    assert b"Possible enum values" not in text
    assert list(without) == list(with_enums)


def test_the_gate_changes_the_hashes_of_what_it_changes() -> None:
    on, off = (
        tree_of("/openapi/v3", OpenAPIHandler(lambda: groups_of(BUILT_IN), enums=enums))["paths"]
        for enums in (True, False)
    )
    changed = {key for key in on if on[key] != off[key]}
    assert changed == {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in VERSIONS}


class MadeInSlices(SynchronousTestCase):
    """Documents are made in slices, for all who ask at the same time."""

    def setUp(self) -> None:
        self.server = handler()
        self.clock = Clock()
        self.turns = 0
        chain = FilterChain([], self.server.handle)
        self.runner = RequestRunner(chain, self.clock, slices=Slices(self.clock, length=-1.0))

    def ask(self, path: str, **headers: str) -> MemoryRequest:
        request = MemoryRequest("GET", path, headers)
        self.runner.serve(request)
        return request

    def finish(self, *requests: MemoryRequest) -> None:
        while self.turns < 100_000 and not all(request.finished for request in requests):
            self.turns += 1
            call = self.clock.calls.pop(0)
            call.called = 1
            call.func()

    def test_it_is_suspended_and_the_same(self) -> None:
        for accept in ("application/json", NEW):
            request = self.ask("/openapi/v2", accept=accept)
            self.assertFalse(request.finished)
            self.finish(request)
            expected = answer(handler(), context("/openapi/v2", accept=accept))
            assert expected is not None
            self.assertEqual(request.written, expected.body)
        self.assertGreater(self.turns, 100)
        self.assertTrue(self.ask("/openapi/v2").finished, "it is kept")

    def test_several_get_what_was_made_once(self) -> None:
        with patch("kapi.endpoints.openapi.documents.paths", wraps=paths) as made:
            requests = [self.ask("/openapi/v3/apis/apps/v1") for _ in range(5)]
            self.finish(*requests)
        self.assertEqual(made.call_count, 1)
        self.assertEqual(len({request.written for request in requests}), 1)

    def test_what_was_made_of_a_group_is_dropped_when_the_group_changes(self) -> None:
        """Nobody may ask for its next documents."""
        paths = ["/openapi/v3/apis/apps/v1", "/openapi/v3/apis/batch/v1", "/openapi/v3/apis"]
        self.finish(*(self.ask(path) for path in paths))
        self.server.invalidate("app")
        self.assertEqual([self.ask(path).finished for path in paths], [True, True, True])
        self.server.invalidate("apps")
        self.assertEqual([self.ask(path).finished for path in paths], [False, True, True])

    def test_another_one_makes_it_when_the_first_goes(self) -> None:
        first, second = (self.ask("/openapi/v3/apis/apps/v1") for _ in range(2))
        first.disconnect()
        self.finish(second)
        self.assertEqual((second.code, first.written), (200, b""))

    def test_what_was_made_while_the_groups_changed_is_not_kept(self) -> None:
        request = self.ask("/openapi/v2")
        self.server.invalidate()
        self.finish(request)
        self.assertEqual(request.code, 200)
        self.assertFalse(self.ask("/openapi/v2").finished)


def body(response: Any) -> Any:
    assert response is not None
    return orjson.loads(response.body)


def test_the_index_names_documents_that_can_be_fetched_and_kept() -> None:
    server = handler()
    paths = body(answer(server, context("/openapi/v3")))["paths"]
    assert {"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version"} <= set(paths)
    url = paths["apis/policy/v1"]["serverRelativeURL"]
    path, _, query = url.partition("?hash=")
    ctx = context(path)
    ctx.query = {"hash": [query]}
    response = answer(server, ctx)
    assert response is not None and response.status == 200
    headers = dict(response.headers)
    assert b"immutable" in headers[b"cache-control"]
    again = answer(server, context(path, if_none_match=headers[b"etag"].decode()))
    assert again is not None and again.status == 304


def test_an_old_hash_leads_to_the_new_one() -> None:
    ctx = context("/openapi/v3/apis/node.k8s.io/v1")
    ctx.query = {"hash": ["ABC"]}
    response = answer(handler(), ctx)
    assert response is not None and response.status == 301
    assert dict(response.headers)[b"location"].startswith(b"/openapi/v3/apis/node.k8s.io/v1?hash=")


@pytest.mark.parametrize("path", ["/openapi/v3/apis/nosuch/v1", "/openapi/v3/nosuch", "/openapi/v3/"])
def test_unknown_documents_are_not_found(path: str) -> None:
    response = answer(handler(), context(path))
    assert response is not None and response.status == 404


def varies(response: Response) -> list[bytes]:
    return [value for name, value in response.headers if name == b"vary"]


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/apis/apps/v1"])
def test_what_is_not_offered_is_refused(path: str) -> None:
    response = answer(handler(), context(path, accept="application/xml"))
    assert response is not None and response.status == 406
    assert varies(response) == [b"Accept-Encoding", b"Accept"][path != "/openapi/v2" :]


OLD = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
NEW = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (OLD, NEW),
        (NEW, NEW),
        (f"{OLD}, application/json", NEW),
        (f"{OLD};q=0.5, application/json", "application/json"),
        ("*/*", "application/json"),
        ("", "application/json"),
    ],
)
def test_version_2_comes_as_its_client_likes_it(accept: str, content_type: str) -> None:
    response = answer(handler(), context("/openapi/v2", accept=accept))
    assert response is not None and response.content_type == content_type.encode()
    assert varies(response) == [b"Accept-Encoding", b"Accept"]


def test_both_forms_of_version_2_have_one_hash_until_the_groups_change() -> None:
    groups = groups_of(BUILT_IN)
    server = OpenAPIHandler(lambda: groups)
    tags = []
    for accept in ("application/json", NEW):
        response = answer(server, context("/openapi/v2", accept=accept))
        assert response is not None
        tags.append(dict(response.headers)[b"etag"])
    plain = answer(server, context("/openapi/v2"))
    assert plain is not None
    assert tags == [f'"{hashlib.sha512(plain.body).hexdigest().upper()}"'.encode()] * 2
    again = answer(server, context("/openapi/v2", accept=NEW, if_none_match=tags[0].decode()))
    assert again is not None and again.status == 304 and not again.body
    del groups[-1]
    server.invalidate()
    changed = answer(server, context("/openapi/v2", accept=NEW, if_none_match=tags[0].decode()))
    assert changed is not None and changed.status == 200 and dict(changed.headers)[b"etag"] != tags[0]


class Packed:
    """A protobuf message, read by field numbers."""

    def __init__(self, data: bytes) -> None:
        self.found: dict[int, list[Any]] = {}
        for number, _, value in fields(data):
            self.found.setdefault(number, []).append(value)
        assert list(self.found) == sorted(self.found)  # as every writer of protobuf orders them

    def all(self, *path: int) -> list[Any]:
        """The values at a path of field numbers."""
        values = self.found.get(path[0], [])
        return values if len(path) == 1 else [found for value in values for found in Packed(value).all(*path[1:])]

    def named(self, *path: int) -> dict[str, Packed]:
        """The entries at a path as names (1) and messages (2)."""
        entries = [Packed(entry) for entry in self.all(*path)]
        return {entry.all(1)[0].decode(): Packed(entry.all(2)[0]) for entry in entries}


def in_both_forms(path: str, form: str) -> tuple[Any, Packed]:
    found = answer(handler(), context(path, accept=form))
    assert found is not None and isinstance(found.body, bytes)
    return tree_of(path), Packed(found.body)


def test_protobuf_says_what_json_says() -> None:
    tree, packed = in_both_forms("/openapi/v2", NEW)
    assert packed.all(1) == [b"2.0"]
    assert packed.all(2, 1) == [tree["info"]["title"].encode()]
    definitions = packed.named(9, 1)
    assert list(definitions) == list(tree["definitions"])
    pod, known = definitions["io.k8s.api.core.v1.Pod"], tree["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod.all(4) == [known["description"].encode()]
    assert pod.all(22, 1) == [b"object"]
    assert list(pod.named(25, 1)) == list(known["properties"])
    assert pod.named(25, 1)["spec"].all(1) == [b"#/definitions/io.k8s.api.core.v1.PodSpec"]
    extension = pod.named(31)["x-kubernetes-group-version-kind"].all(2)[0]
    assert yaml.safe_load(extension) == [{"group": "", "kind": "Pod", "version": "v1"}]
    paths = packed.named(8, 2)
    assert list(paths) == list(tree["paths"])
    item = "/api/v1/namespaces/{namespace}/configmaps"
    post, said = Packed(paths[item].all(4)[0]), tree["paths"][item]["post"]
    assert post.all(5) == [said["operationId"].encode()]
    bodies = [place for place in said["parameters"] if place.get("in") == "body"]
    assert [schema.decode() for schema in post.all(8, 1, 1, 5, 1)] == [body["schema"]["$ref"] for body in bodies]
    asked = [place["name"].encode() for place in said["parameters"] if place.get("in") == "query"]
    assert post.all(8, 1, 2, 3, 4) == asked and asked
    shared = [place["$ref"].encode() for place in said["parameters"] if "$ref" in place]
    assert post.all(8, 2, 1) == shared and shared
    assert list(packed.named(10, 1)) == list(tree["parameters"])
    assert list(post.named(9, 1)) == list(said["responses"])


@pytest.mark.parametrize(
    ("schema", "path", "values"),
    [
        ({"additionalProperties": True}, (21, 2), [1]),
        ({"additionalProperties": False}, (21, 2), [0]),
        ({"additionalProperties": {"type": "string"}}, (21, 1, 22, 1), [b"string"]),
        ({"items": {"type": "integer", "format": "int32"}}, (23, 1, 2), [b"int32"]),
        ({"enum": ["a", 1, "1"]}, (20, 2), [b"a\n", b"1\n", b'"1"\n']),
        (
            {"x-kubernetes-selectable-fields": [{"jsonPath": ".a"}, {"jsonPath": ".b"}]},
            (31, 2, 2),
            [b"- jsonPath: .a\n- jsonPath: .b\n"],
        ),
        ({"x-long": "a" * 600}, (31, 2, 2), [b"a" * 600 + b"\n"]),
        ({"default": {}}, (5, 2), [b"{}\n"]),
        ({"minLength": 300, "maxLength": 0}, (12,), [300]),
        ({"minLength": 300, "maxLength": 0}, (11,), []),
        ({"maximum": 1.5}, (7,), [struct.pack("<d", 1.5)]),
        ({"minItems": -1}, (15,), [2**64 - 1]),
        ({"allOf": [{"$ref": "#/a"}, {"title": "é"}]}, (24, 3), ["é".encode()]),
        ({"nullable": True, "oneOf": []}, (31,), []),
    ],
)
def test_schemas_in_protobuf(schema: Any, path: tuple[int, ...], values: list[Any]) -> None:
    assert Packed(protobuf.schema(schema)).all(*path) == values


@pytest.mark.parametrize(
    ("message", "number", "inside", "path"),
    [
        ("document", 16, {}, ()),
        ("info", 7, {"info": ...}, (2,)),
        ("contact", 4, {"info": {"contact": ...}}, (2, 5)),
        ("license", 3, {"info": {"license": ...}}, (2, 6)),
        ("docs", 3, {"externalDocs": ...}, (15,)),
        ("paths", 1, {"paths": ...}, (8,)),
        ("item", 10, {"paths": {"/": ...}}, (8, 2, 2)),
        ("operation", 13, {"paths": {"/": {"get": ...}}}, (8, 2, 2, 2)),
        ("responses", 2, {"paths": {"/": {"get": {"responses": ...}}}}, (8, 2, 2, 2, 9)),
        ("response", 5, {"responses": {"n": ...}}, (11, 1, 2)),
        ("header", 19, {"responses": {"n": {"headers": {"m": ...}}}}, (11, 1, 2, 3, 1, 2)),
        ("file", 10, {"responses": {"n": {"schema": {"type": "file", "x-file": 1}}}}, (11, 1, 2, 2, 2)),
        ("xml", 6, {"definitions": {"n": {"xml": ...}}}, (9, 1, 2, 28)),
        ("body", 6, {"parameters": {"n": {"in": "body", "x-body": 1}}}, (10, 1, 2, 1)),
        ("header", 22, {"parameters": {"n": {"in": "header", "x-header": 1}}}, (10, 1, 2, 2, 1)),
        ("form", 23, {"parameters": {"n": {"in": "formData", "x-form": 1}}}, (10, 1, 2, 2, 2)),
        ("query", 23, {"parameters": {"n": {"in": "query", "x-query": 1}}}, (10, 1, 2, 2, 3)),
        ("path", 22, {"parameters": {"n": {"in": "path", "x-path": 1}}}, (10, 1, 2, 2, 4)),
        ("items", 18, {"parameters": {"n": {"in": "path", "items": ...}}}, (10, 1, 2, 2, 4, 7)),
        ("basic", 3, {"securityDefinitions": {"n": {"type": "basic", "x-basic": 1}}}, (13, 1, 2, 1)),
        ("key", 5, {"securityDefinitions": {"n": {"type": "apiKey", "x-key": 1}}}, (13, 1, 2, 2)),
        ("flow", 6, {"securityDefinitions": {"n": {"flow": "implicit", "x-flow": 1}}}, (13, 1, 2, 3)),
        ("flow", 6, {"securityDefinitions": {"n": {"flow": "password", "x-flow": 1}}}, (13, 1, 2, 4)),
        ("flow", 6, {"securityDefinitions": {"n": {"flow": "application", "x-flow": 1}}}, (13, 1, 2, 5)),
        ("flow", 7, {"securityDefinitions": {"n": {"flow": "accessCode", "x-flow": 1}}}, (13, 1, 2, 6)),
    ],
)
def test_extensions_of_each_message(message: str, number: int, inside: Any, path: tuple[int, ...]) -> None:
    packed = Packed(protobuf.document(extended(message, inside)))
    assert packed.all(*path, number, 1) == [f"x-{message}".encode()]


def extended(message: str, tree: Any) -> Any:
    """The tree with an extension of the message where it is empty."""
    if tree in ({}, ...):
        return {"x-" + message: 1}
    return {key: extended(message, value) for key, value in tree.items()} if isinstance(tree, dict) else tree


V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (V3, V3),
        ("application/com.github.proto-openapi.spec.v3@v1.0+protobuf", V3),
        (f"application/json;q=0.5, {V3}", V3),
        ("*/*", "application/json"),
        ("application/yaml", ""),
    ],
)
def test_version_3_comes_as_its_client_likes_it(accept: str, content_type: str) -> None:
    server = handler()
    response = answer(server, context("/openapi/v3/apis/apps/v1", accept=accept))
    assert response is not None and response.content_type == content_type.encode()
    assert response.status == (200 if content_type else 406)
    if content_type:
        other = answer(server, context("/openapi/v3/apis/apps/v1"))
        assert other is not None and dict(other.headers)[b"etag"] == dict(response.headers)[b"etag"]


def test_protobuf_of_version_3_says_what_json_says() -> None:
    tree, packed = in_both_forms("/openapi/v3/apis/apps/v1", V3)
    assert (packed.all(1), packed.all(2, 1)) == ([b"3.0.0"], [b"Kubernetes"])
    schemas = packed.named(5, 1, 1)
    assert list(schemas) == list(tree["components"]["schemas"])
    known = tree["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    deployment = Packed(schemas["io.k8s.api.apps.v1.Deployment"].all(1)[0])
    assert deployment.all(34) == [known["description"].encode()]
    assert list(deployment.named(31, 1)) == list(known["properties"])
    spec = Packed(deployment.named(31, 1)["spec"].all(1)[0])
    assert spec.all(26, 2, 1) == [b"#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"]
    assert spec.all(33) == [b""]  # the default is an object, which has no form
    extension = deployment.named(36)["x-kubernetes-group-version-kind"].all(2)[0]
    assert yaml.safe_load(extension) == known["x-kubernetes-group-version-kind"]
    paths = packed.named(4, 1)
    assert list(paths) == list(tree["paths"])
    item = "/apis/apps/v1/namespaces/{namespace}/deployments"
    post, said = Packed(paths[item].all(6)[0]), tree["paths"][item]["post"]
    assert post.all(5) == [said["operationId"].encode()]
    assert [name.decode() for name in post.all(6, 1, 1)] == [place["name"] for place in said["parameters"]]
    content = Packed(post.all(7, 1)[0])
    assert list(content.named(2, 1)) == list(said["requestBody"]["content"])
    body = content.named(2, 1)["*/*"].all(1, 2, 1)
    assert [text.decode() for text in body] == [said["requestBody"]["content"]["*/*"]["schema"]["$ref"]]
    responses = {entry.decode() for entry in post.all(8, 2, 1)}
    assert responses == set(said["responses"])
    assert [place.decode() for place in paths[item].all(13, 1, 1)] == [
        place["name"] for place in tree["paths"][item]["parameters"]
    ]


@pytest.mark.parametrize(
    ("schema", "path", "values"),
    [
        ({"additionalProperties": True}, (32, 2), [1]),
        ({"additionalProperties": False}, (32, 2), [0]),
        ({"additionalProperties": {"type": "string"}}, (32, 1, 1, 25), [b"string"]),
        ({"items": {"$ref": "#/a"}}, (30, 1, 2, 1), [b"#/a"]),
        ({"default": 0}, (33, 1), [bytes(8)]),
        ({"default": False}, (33, 2), [0]),
        ({"default": ""}, (33, 3), [b""]),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, (27, 1, 25), [b"string", b"number"]),
        ({"not": {"format": "int32"}}, (29, 35), [b"int32"]),
        ({"enum": [1, None]}, (24, 2), [b"1\n", b"null\n"]),
    ],
)
def test_schemas_of_version_3_in_protobuf(schema: Any, path: tuple[int, ...], values: list[Any]) -> None:
    assert Packed(protobuf_v3.schema(schema)).all(*path) == values


@pytest.mark.parametrize(
    ("message", "number", "inside", "path"),
    [
        ("document", 9, {}, ()),
        ("info", 7, {"info": ...}, (2,)),
        ("contact", 4, {"info": {"contact": ...}}, (2, 4)),
        ("license", 3, {"info": {"license": ...}}, (2, 5)),
        ("docs", 3, {"externalDocs": ...}, (8,)),
        ("components", 10, {"components": ...}, (5,)),
        ("scheme", 9, {"components": {"securitySchemes": {"n": ...}}}, (5, 7, 1, 2, 1)),
        ("schema", 36, {"components": {"schemas": {"n": ...}}}, (5, 1, 1, 2, 1)),
        ("paths", 2, {"paths": ...}, (4,)),
        ("item", 14, {"paths": {"/": ...}}, (4, 1, 2)),
        ("operation", 13, {"paths": {"/": {"get": ...}}}, (4, 1, 2, 4)),
        ("parameter", 14, {"components": {"parameters": {"n": ...}}}, (5, 3, 1, 2, 1)),
        ("body", 4, {"components": {"requestBodies": {"n": ...}}}, (5, 5, 1, 2, 1)),
        ("header", 12, {"components": {"headers": {"n": ...}}}, (5, 6, 1, 2, 1)),
        ("response", 5, {"components": {"responses": {"n": ...}}}, (5, 2, 1, 2, 1)),
        ("content", 5, {"components": {"responses": {"n": {"content": {"m": ...}}}}}, (5, 2, 1, 2, 1, 3, 1, 2)),
    ],
)
def test_extensions_of_each_message_of_version_3(message: str, number: int, inside: Any, path: tuple[int, ...]) -> None:
    packed = Packed(protobuf_v3.document(extended(message, inside)))
    assert packed.all(*path, number, 1) == [f"x-{message}".encode()]


def test_other_paths_are_passed_on() -> None:
    assert answer(handler(), context("/openapi")) is None


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/apis/policy/v1"])
def test_how_long_a_document_is_kept_is_said_once(path: str) -> None:
    server = handler()
    ctx = context(path)
    cache_control(ctx)
    response = answer(server, ctx)
    assert response is not None and response.status == 200
    sent = [value for name, value in (*ctx.response_headers, *response.headers) if name == b"cache-control"]
    assert sent == [b"no-cache, private"]
