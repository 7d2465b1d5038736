"""OpenAPI: every reference leads somewhere, hashes name what changes, negotiation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from kapi.endpoints.discovery.groups import groups_of
from kapi.endpoints.openapi import documents
from kapi.endpoints.openapi.handler import OpenAPIHandler
from kapi.endpoints.openapi.schemas import definition_v3
from kapi.resources.catalogue import BUILT_IN
from tests.endpoints.test_discovery import context

GROUPS = groups_of(BUILT_IN)
VERSIONS = [(group.name, entry.version, entry.resources) for group in GROUPS for entry in group.versions]


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


@pytest.mark.parametrize(
    ("group", "version", "rows"), VERSIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_document_of_version_3_stands_on_its_own(group: str, version: str, rows: Any) -> None:
    document = documents.group_version_v3(group, version, rows)
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
    document = documents.document_v2(VERSIONS)
    assert set(references(document)) <= {f"#/definitions/{name}" for name in document["definitions"]}
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


def body(response: Any) -> Any:
    assert response is not None
    return orjson.loads(response.body)


def test_the_index_names_documents_that_can_be_fetched_and_kept() -> None:
    server = handler()
    paths = body(server.handle(context("/openapi/v3")))["paths"]
    assert {"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version"} <= set(paths)
    url = paths["apis/policy/v1"]["serverRelativeURL"]
    path, _, query = url.partition("?hash=")
    ctx = context(path)
    ctx.query = {"hash": [query]}
    response = server.handle(ctx)
    assert response is not None and response.status == 200
    headers = dict(response.headers)
    assert b"immutable" in headers[b"cache-control"]
    again = server.handle(context(path, if_none_match=headers[b"etag"].decode()))
    assert again is not None and again.status == 304


def test_an_old_hash_leads_to_the_new_one() -> None:
    ctx = context("/openapi/v3/apis/node.k8s.io/v1")
    ctx.query = {"hash": ["ABC"]}
    response = handler().handle(ctx)
    assert response is not None and response.status == 301
    assert dict(response.headers)[b"location"].startswith(b"/openapi/v3/apis/node.k8s.io/v1?hash=")


@pytest.mark.parametrize("path", ["/openapi/v3/apis/nosuch/v1", "/openapi/v3/nosuch", "/openapi/v3/"])
def test_unknown_documents_are_not_found(path: str) -> None:
    response = handler().handle(context(path))
    assert response is not None and response.status == 404


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/apis/apps/v1"])
def test_only_json_is_offered(path: str) -> None:
    response = handler().handle(context(path, accept="application/xml"))
    assert response is not None and response.status == 406


def test_other_paths_are_passed_on() -> None:
    assert handler().handle(context("/openapi")) is None
