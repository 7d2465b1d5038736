"""The documents are those of kube-apiserver, descriptions included; those of custom resources follow its rules."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from kapi.endpoints.openapi import custom, handler
from kapi.endpoints.openapi.handler import OpenAPIHandler
from kapi.endpoints.openapi.schemas import V2, V3
from kapi.machinery.gvk import GroupVersionKind
from kapi.resources.catalogue import BUILT_IN
from kapi.servers.apiextensions.outline import outline
from kapi.servers.apiextensions.rows import Rows
from tests.bench.definitions import definition
from tests.endpoints.built_in_groups import groups_of
from tests.endpoints.test_discovery import context
from tests.endpoints.test_openapi import answer

DIGESTS = dict(
    reversed(line.split(" ", 1))
    for line in (Path(__file__).parents[1] / "vectors" / "openapi" / "digests.txt").read_text().splitlines()
)
HANDLER = OpenAPIHandler(lambda: groups_of(BUILT_IN))


@pytest.mark.parametrize("key", sorted(DIGESTS))
def test_a_document_equals_that_of_kube_apiserver(key: str) -> None:
    response = answer(HANDLER, context(f"/{key}" if key == "openapi/v2" else f"/openapi/v3/{key}"))
    assert response is not None and response.status == 200 and isinstance(response.body, bytes)
    text = json.dumps(json.loads(response.body), sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == DIGESTS[key]


def test_a_reference_among_a_custom_resources_values_is_none() -> None:
    """Values that a schema contains are data: neither followed, nor a reason to answer nobody."""
    crd = definition("refs.example.com", 1)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    value = {"type": "object", **PRESERVES, "default": {"$ref": "no path"}, "example": {"$ref": "a/io.k8s.Nothing"}}
    schema["properties"]["spec"]["properties"]["value"] = value
    rows = Rows(outline(json.dumps(crd).encode())).served
    handler = OpenAPIHandler(lambda: groups_of([*BUILT_IN, *rows]))
    for path in ("/openapi/v2", "/openapi/v3/apis/refs.example.com/v1"):
        response = answer(handler, context(path))
        assert response is not None and isinstance(response.body, bytes)
        assert (b'"default":{"$ref":"no path"}' in response.body) is (path != "/openapi/v2")


def test_a_custom_resource_does_not_take_the_name_of_a_built_in_definition() -> None:
    """Its group may be the reverse of a package's name."""
    crd = definition("apps.api.k8s.io", 1)
    names = {"plural": "deployments", "kind": "Deployment", "listKind": "DeploymentList", "singular": "deployment"}
    crd["metadata"]["name"], crd["spec"]["names"] = "deployments.apps.api.k8s.io", names
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["probe"] = {"type": "boolean"}
    handler = OpenAPIHandler(lambda: groups_of([*BUILT_IN, *Rows(outline(json.dumps(crd).encode())).served]))
    response = answer(handler, context("/openapi/v2"))
    assert response is not None and isinstance(response.body, bytes)
    document = json.loads(response.body)
    name, definitions, paths = "io.k8s.api.apps.v1.Deployment", document["definitions"], document["paths"]
    assert "template" in definitions[name + "Spec"]["properties"] and "probe" not in definitions[name]["properties"]
    assert "probe" in definitions[f"{name}_v2"]["properties"]
    lists = definitions[f"{name}List_v2"]["properties"]["items"]
    assert lists["items"] == {"$ref": f"#/definitions/{name}_v2"}
    for group, expected in (("apps", name), ("apps.api.k8s.io", f"{name}_v2")):
        one = paths[f"/apis/{group}/v1/namespaces/{{namespace}}/deployments/{{name}}"]["get"]
        assert one["responses"]["200"]["schema"] == {"$ref": f"#/definitions/{expected}"}


PRESERVES = {"x-kubernetes-preserve-unknown-fields": True}


def v2_of(part: dict[str, Any]) -> dict[str, Any]:
    """What the document of v2 says of a field with this schema."""
    found: dict[str, Any] = published({"type": "object", "properties": {"f": part}}, V2)["properties"]["f"]
    return found


def published(schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    return custom.schema_of(schema, GroupVersionKind("example.com", "v1", "Foo"), prefix)


def test_every_custom_resource_has_a_described_type_and_metadata() -> None:
    for prefix in (V2, V3):
        found = published({"type": "object", "properties": {"metadata": {"type": "object"}}}, prefix)["properties"]
        assert found["kind"]["description"].startswith("Kind is a string value representing the REST resource")
        assert found["apiVersion"]["description"].startswith("APIVersion defines the versioned schema")
        assert found["metadata"]["description"].startswith("Standard object's metadata.")
        assert "ObjectMeta" in json.dumps(found["metadata"])


def test_a_schema_that_keeps_unknown_fields_says_nothing_to_clients_of_v2() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}, **PRESERVES}
    assert set(published(schema, V2)) == {"type", "x-kubernetes-group-version-kind"}
    assert set(published(schema, V3)["properties"]) == {"apiVersion", "kind", "metadata", "spec"}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, **PRESERVES}, PRESERVES),
        ({"type": "string", "nullable": True}, {}),
        ({"type": "string", "default": "x"}, {"type": "string"}),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 0}}}},
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        ),
        ({"type": "array", "items": {"type": "string"}, "nullable": True}, {}),
        ({"type": "array", "items": {"type": "string"}, **PRESERVES}, PRESERVES),
        ({"type": "string", "anyOf": [{"minLength": 1}], "not": {"enum": ["a"]}}, {"type": "string"}),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {"nullable": True}, "b": {"type": "string"}},
            },
            {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}},
        ),
        (
            {"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": True}},
            {"type": "object", "additionalProperties": {}},
        ),
        (
            {"type": "array", "items": {"type": "object", "oneOf": [{"required": ["a"]}]}},
            {"type": "array", "items": {"type": "object"}},
        ),
    ],
)
def test_what_v2_cannot_say_is_left_out(part: dict[str, Any], shown: dict[str, Any]) -> None:
    assert v2_of(part) == shown
    assert published({"type": "object", "properties": {"f": part}}, V3)["properties"]["f"] == part


EITHER = [{"type": "integer"}, {"type": "string"}]
INT_OR_STRING: dict[str, Any] = {"x-kubernetes-int-or-string": True}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (INT_OR_STRING, {**INT_OR_STRING, "anyOf": EITHER}),
        ({**INT_OR_STRING, "anyOf": EITHER}, {**INT_OR_STRING, "anyOf": EITHER}),
        (
            {**INT_OR_STRING, "allOf": [{"anyOf": EITHER}, {"not": {}}]},
            {**INT_OR_STRING, "allOf": [{"anyOf": EITHER}, {"not": {}}]},
        ),
        (
            {**INT_OR_STRING, "anyOf": [{"minimum": 1}], "allOf": [{"maximum": 3}]},
            {**INT_OR_STRING, "anyOf": [{"minimum": 1}], "allOf": [{"anyOf": EITHER}, {"maximum": 3}]},
        ),
        (
            {"type": "array", "items": INT_OR_STRING},
            {"type": "array", "items": {**INT_OR_STRING, "anyOf": EITHER}},
        ),
    ],
)
def test_an_integer_or_a_string_is_said_in_common_words(part: dict[str, Any], shown: dict[str, Any]) -> None:
    assert published({"type": "object", "properties": {"f": part}}, V3)["properties"]["f"] == shown
    assert "anyOf" not in v2_of(part) and "allOf" not in v2_of(part)


def test_an_embedded_resource_has_a_type_and_metadata() -> None:
    part = {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["kind"]}
    for prefix in (V2, V3):
        found = published({"type": "object", "properties": {"f": part}}, prefix)["properties"]["f"]
        assert found["required"] == ["kind", "apiVersion"]
        assert set(found["properties"]) == {"apiVersion", "kind", "metadata"}
        assert found["properties"]["kind"]["description"].startswith("kind is a string value representing the type")
    assert "properties" not in v2_of({**part, **PRESERVES})


def test_the_digest_of_all_schemas_changes_with_the_files_they_are_made_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It names documents that are made only when they are asked for; a file that is not there has no part in it."""
    digest = handler._types_digest.__wrapped__
    found = [digest()]
    for content in (b"one", b"other", None):
        file = tmp_path / "facts"
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)
        monkeypatch.setattr(handler.derive, "FACTS", file)
        found.append(digest())
    assert len(set(found)) == 4
