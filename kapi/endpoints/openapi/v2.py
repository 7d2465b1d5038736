"""``/openapi/v2``: one Swagger document of all group versions, made from the operations in the form of v3.

Upstream: kube-openapi ``builder``, with its shared parameters (``builder/parameters.go``).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

import orjson

from kapi.endpoints.openapi.custom import custom_schemas
from kapi.endpoints.openapi.documents import BEARER, INFO, group_v3, root_documents_v3
from kapi.endpoints.openapi.paths import paths
from kapi.endpoints.openapi.schemas import V2, V3, closure, definition_v2, references
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource

_METHODS = frozenset(["get", "put", "post", "delete", "options", "head", "patch"])
#: media types in upstream's order
_PRODUCED = (
    "*/*", "text/plain", "application/jwk-set+json", "application/json", "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch",
)  # fmt: skip
_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)  # fmt: skip
_ORDER = ("uniqueItems", "type", "description", "name", "in", "required", "schema")  # as Go writes a parameter
_HTML = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))  # what Go escapes besides
#: parameters that kubectl looks for in each operation
_NEVER_SHARED = frozenset(["name", "fieldValidation", "dryRun"])


def document_v2(versions: Iterable[tuple[str, str, list[Resource]]]) -> Object:
    """``/openapi/v2`` of all group versions."""
    items: dict[str, Object] = {}
    own: dict[str, Object] = {}
    groups: set[str] = set()
    for group, version, resources in versions:
        checkpoint()
        own.update(custom_schemas(resources, V2))
        items.update(paths(group, version, resources))
        if group and group not in groups:
            groups.add(group)
            items.update(group_v3(group)["paths"])
    for document in root_documents_v3().values():
        items.update(document["paths"])
    names = closure([*references(items), *references(own)])
    described = {path: _path_v2(items[path]) for path in elements(sorted(items))}
    return {
        "swagger": "2.0",
        "info": INFO,
        "parameters": _share(described),
        "paths": described,
        "definitions": {**{name: definition_v2(name) for name in elements(names)}, **own},
        "securityDefinitions": BEARER,
        "security": [{"BearerToken": []}],
    }


def _share(described: dict[str, Object]) -> dict[str, Object]:
    """Replaces parameters of many operations by references, in place; the parameters by their names."""
    shared: dict[str, Object] = {}
    names: dict[bytes, str] = {}
    for parameters in _lists(described):
        for position, parameter in enumerate(parameters):
            if _sharable(parameter):
                text = _go_text(parameter)
                name = names.get(text)
                if name is None:
                    name = names[text] = f"{parameter['name']}-{_hash(text)}"
                    shared[name] = parameter
                parameters[position] = {"$ref": f"#/parameters/{name}"}
    return dict(sorted(shared.items()))


def _lists(described: dict[str, Object]) -> Iterator[list[Object]]:
    for item in elements(described.values()):
        for part in (item, *(item[method] for method in _METHODS & item.keys())):
            if "parameters" in part:
                yield part["parameters"]


def _sharable(parameter: Object) -> bool:
    """Whether a parameter may be shared: it must not be about one kind only."""
    if parameter["in"] == "body":
        return str(parameter["schema"].get("$ref", "")).startswith("#/definitions/io.k8s.apimachinery")
    return parameter["name"] not in _NEVER_SHARED


def _go_text(parameter: Object) -> bytes:
    text = orjson.dumps({key: parameter[key] for key in _ORDER if key in parameter})
    for character, escape in _HTML:
        text = text.replace(character, escape)
    return text


def _hash(text: bytes) -> str:
    """The first 48 bits of the 64-bit FNV-1 hash."""
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF ^ byte
    return base64.urlsafe_b64encode(value.to_bytes(8)[:6]).decode()


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


def _consumed(body: Object | None, produced: list[str]) -> list[str]:
    """What a body may be; operations on custom resources name it even when they take none."""
    if body is None:
        return ["application/json", "application/yaml"] if _is_custom(produced) else ["*/*"]
    return [media for media in ("*/*", *_PATCHES, *_PRODUCED[3:5]) if media in body["content"]]


def _is_custom(produced: list[str]) -> bool:
    return "application/json" in produced and "application/vnd.kubernetes.protobuf" not in produced


def _operation_v2(operation: Object) -> Object:
    result = {key: value for key, value in operation.items() if key not in ("requestBody", "responses", "parameters")}
    parameters = [_parameter_v2(parameter) for parameter in operation.get("parameters", ())]
    body = operation.get("requestBody")
    if body is not None:
        content = body["content"]
        schema = next(iter(content.values()))["schema"]
        entry: Object = {"in": "body", "name": "body", "schema": _schema_v2(schema)}
        if body.get("required"):
            entry["required"] = True
        parameters.insert(0, entry)
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
    result["produces"] = sorted(produces, key=_PRODUCED.index)
    if "x-kubernetes-action" in operation:
        result["consumes"] = _consumed(body, produces)
    elif any("$ref" in response.get("schema", ()) for response in responses.values()):
        result["consumes"] = result["produces"]
    result["responses"] = responses
    result["schemes"] = ["https"]
    return result
