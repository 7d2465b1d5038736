"""Whole documents: one of OpenAPI v3 for each group version, one of v2 for all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kapi.endpoints.openapi.paths import custom_name, group_words, paths
from kapi.endpoints.openapi.schemas import V2, V3, closure, definition_v2, definition_v3, references
from kapi.machinery.gvk import GroupVersionKind
from kapi.resources.definition import Resource

Object = dict[str, Any]
INFO = {"title": "Kubernetes", "version": "1.36"}
_BEARER = {
    "BearerToken": {
        "description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey",
    }
}  # fmt: skip
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_JSON_MEDIA = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
_METHODS = frozenset(["get", "put", "post", "delete", "options", "head", "patch"])


def document_v3(items: dict[str, Object], own: dict[str, Object] | None = None) -> Object:
    """A document of the given path items and all schemas they name; ``own`` are schemas that are not built in."""
    names = closure([*references(items), *references(own)])
    schemas = {**{name: definition_v3(name) for name in names}, **(own or {})}
    components: Object = {"schemas": schemas} if schemas else {}
    components["securitySchemes"] = _BEARER
    return {"openapi": "3.0.0", "info": INFO, "paths": items, "components": components}


def group_version_v3(group: str, version: str, resources: Iterable[Resource]) -> Object:
    rows = list(resources)
    return document_v3(paths(group, version, rows), custom_schemas(rows, V3))


def custom_schemas(resources: Iterable[Resource], prefix: str) -> dict[str, Object]:
    """The schemas of custom resources and their lists.  ``prefix``: of references, V2 or V3."""
    found: dict[str, Object] = {}
    for row in resources:
        if not row.typed_items or row.schema is None:
            continue
        kind = GroupVersionKind(row.group, row.version, row.kind)
        name = custom_name(kind)
        found[name] = _custom_schema(row.schema().schema or {}, kind, prefix)
        list_kind = kind._replace(kind=row.list_kind)
        found[custom_name(list_kind)] = {
            "description": f"{row.list_kind} is a list of {row.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {
                **_TYPE_META,
                "metadata": _meta("ListMeta", prefix),
                "items": {"type": "array", "items": {"$ref": prefix + name}},
            },
            "x-kubernetes-group-version-kind": [list_kind._asdict()],
        }
    return found


_TYPE_META: Object = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def _meta(name: str, prefix: str) -> Object:
    reference = {"$ref": prefix + _META + name}
    return reference if prefix == V2 else {"allOf": [reference]}


def _custom_schema(schema: Object, kind: GroupVersionKind, prefix: str) -> Object:
    published = {key: value for key, value in schema.items() if key not in ("x-kubernetes-validations",)}
    properties = {**_TYPE_META, **published.get("properties", {}), "metadata": _meta("ObjectMeta", prefix)}
    return {
        **published,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [kind._asdict()],
    }


def _simple(
    path: str, text: str, operation: str, name: str | None, word: str, only: str = "application/json"
) -> dict[str, Object]:
    schema: Object = {"$ref": V3 + name} if name else {"type": "string"}
    media = (only,) if name is None or name.endswith("Info") else _JSON_MEDIA
    ok = {"content": {kind: {"schema": schema} for kind in media}, "description": "OK"}
    responses = {"200": ok, "401": {"description": "Unauthorized"}}
    return {path: {"get": {"description": text, "operationId": operation, "responses": responses, "tags": [word]}}}


def group_v3(group: str) -> Object:
    """``/openapi/v3/apis/<group>``"""
    words = group_words(group)
    word = words[:1].lower() + words[1:]
    items = _simple(f"/apis/{group}/", "get information of a group", f"get{words}APIGroup", _META + "APIGroup", word)
    return document_v3(items)


def root_documents_v3() -> dict[str, Object]:
    """The documents beside the group versions, by their key in the index."""
    version = "io.k8s.apimachinery.pkg.version.Info"
    return {
        "api": document_v3(
            _simple("/api/", "get available API versions", "getCoreAPIVersions", _META + "APIVersions", "core")
        ),
        "apis": document_v3(
            _simple("/apis/", "get available API versions", "getAPIVersions", _META + "APIGroupList", "apis")
        ),
        "version": document_v3(
            _simple("/version/", "get the version information for this server", "getCodeVersion", version, "version")
        ),
        ".well-known/openid-configuration": document_v3(
            _simple(
                "/.well-known/openid-configuration/",
                "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
                "getServiceAccountIssuerOpenIDConfiguration", None, "WellKnown",
            )
        ),
        "openid/v1/jwks": document_v3(
            _simple(
                "/openid/v1/jwks/",
                "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
                "getServiceAccountIssuerOpenIDKeyset", None, "openid", "application/jwk-set+json",
            )
        ),
    }  # fmt: skip


def root_document_v3(key: str) -> Object:
    """One of them."""
    return root_documents_v3()[key]


def document_v2(versions: Iterable[tuple[str, str, list[Resource]]]) -> Object:
    """``/openapi/v2`` of all group versions."""
    items: dict[str, Object] = {}
    own: dict[str, Object] = {}
    groups: set[str] = set()
    for group, version, resources in versions:
        own.update(custom_schemas(resources, V2))
        items.update(paths(group, version, resources))
        if group and group not in groups:
            groups.add(group)
            items.update(group_v3(group)["paths"])
    for document in root_documents_v3().values():
        items.update(document["paths"])
    names = closure([*references(items), *references(own)])
    return {
        "swagger": "2.0",
        "info": INFO,
        "paths": {path: _path_v2(items[path]) for path in sorted(items)},
        "definitions": {**{name: definition_v2(name) for name in names}, **own},
        "securityDefinitions": _BEARER,
        "security": [{"BearerToken": []}],
    }


def _path_v2(item: Object) -> Object:
    result: Object = {}
    for key, value in item.items():
        if key == "parameters":
            result[key] = [_parameter_v2(parameter) for parameter in value]
        elif key in _METHODS:
            result[key] = _operation_v2(value)
    return result


def _parameter_v2(parameter: Object) -> Object:
    rest = {key: value for key, value in parameter.items() if key != "schema"}
    return {**rest, **parameter["schema"]}


def _schema_v2(schema: Object) -> Object:
    return {"$ref": schema["$ref"].replace(V3, V2)} if "$ref" in schema else schema


def _operation_v2(operation: Object) -> Object:
    result = {key: value for key, value in operation.items() if key not in ("requestBody", "responses", "parameters")}
    parameters = [_parameter_v2(parameter) for parameter in operation.get("parameters", ())]
    body = operation.get("requestBody")
    result["consumes"] = ["*/*"]
    if body is not None:
        content = body["content"]
        schema = next(iter(content.values()))["schema"]
        entry: Object = {"in": "body", "name": "body", "schema": _schema_v2(schema)}
        if body.get("required"):
            entry["required"] = True
        parameters.insert(0, entry)
        if "*/*" not in content:
            result["consumes"] = sorted(content)
    if parameters:
        result["parameters"] = parameters
    produces: list[str] = []
    responses: Object = {}
    for code, response in operation["responses"].items():
        responses[code] = {"description": response["description"]}
        for media, entry in response.get("content", {}).items():
            responses[code]["schema"] = _schema_v2(entry["schema"])
            if media not in produces:
                produces.append(media)
    result["produces"] = sorted(produces, key=lambda media: (";" in media, "protobuf" in media, media))
    result["responses"] = responses
    result["schemes"] = ["https"]
    return result
