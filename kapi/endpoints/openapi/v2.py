"""``/openapi/v2``: one Swagger document of all group versions, made from the operations in the form of v3.

Upstream: kube-openapi ``builder``, with its shared parameters (``builder/parameters.go``).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import orjson

from kapi.codecs import json_pieces
from kapi.endpoints.openapi.custom import REFERENCES, custom_schemas
from kapi.endpoints.openapi.documents import BEARER, STYLE, Style, group_items, root_items
from kapi.endpoints.openapi.paths import base_path, paths
from kapi.endpoints.openapi.pieces import Form, Make, Section, path_section, schema_section, whole
from kapi.endpoints.openapi.remote import merge, renamed
from kapi.endpoints.openapi.schemas import V2, V3, closure, definition_v2, references
from kapi.machinery.each import costly, elements, entries
from kapi.machinery.tree import Object
from kapi.request.packed import Packed
from kapi.resources.definition import Resource
from kapi.schema import builtin

_FIELDS = ("swagger", "info", "parameters", "paths", "definitions", "securityDefinitions", "security")  # in their order
_METHODS = frozenset(["get", "put", "post", "delete", "options", "head", "patch"])
#: media types in upstream's order
_PRODUCED = (
    "*/*", "text/plain", "application/jwk-set+json", "application/json", "application/yaml",
    "application/vnd.kubernetes.protobuf", "application/cbor",
    "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq",
)  # fmt: skip
_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml", "application/apply-patch+cbor",
)  # fmt: skip
_ORDER = ("uniqueItems", "type", "description", "name", "in", "required", "schema")  # as Go writes a parameter
_HTML = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))  # characters that Go escapes in addition
#: parameters that kubectl looks for in each operation
_NEVER_SHARED = frozenset(["name", "fieldValidation", "dryRun"])


def documents_v2(
    versions: Iterable[tuple[str, str, list[Resource]]],
    others: Sequence[tuple[str, Packed]],
    forms: Sequence[Form],
    style: Style = STYLE,
    cbor: bool = False,
) -> list[Packed]:
    """``/openapi/v2`` of all group versions, in several forms.

    ``others``: prefixes of paths, and the documents of other servers for them (``remote``).
    """
    parts: dict[str, Callable[[], Mapping[str, Make]]] = {}  # prefix of paths -> their items
    own: dict[str, Make] = {}
    custom: set[str] = set()  # prefixes of the paths of custom resources
    for group, version, resources in costly(versions):
        found = custom_schemas(resources, V2)
        own.update(found)
        if found:
            custom.add(f"{base_path(group, version)}/")
        parts[f"{base_path(group, version)}/"] = partial(paths, group, version, resources, cbor)
        if group and not all(row.typed_items for row in resources):  # upstream describes no group of custom resources
            parts[f"/apis/{group}/"] = partial(group_items, group)
    parts.update((path, partial(dict, items)) for items in root_items().values() for path in items)
    names: set[str] = set(REFERENCES if own else ())
    shared = _SharedParameters()
    #: new names of custom resources' definitions that have the name of a built-in one
    names_taken = {("definitions", name): f"{name}_v2" for name in own if name in builtin.definitions()}
    own = {
        names_taken.get(("definitions", name), name): partial(_renaming, make, names_taken) if names_taken else make
        for name, make in own.items()
    }
    #: the paths in order; prefixes stand for the paths of other servers until all of our paths are known
    order: list[Section | str] = []
    section = path_section(forms)
    for prefix in elements(sorted({*parts, *dict(others)})):
        if prefix not in parts:
            order += section, prefix
            section = path_section(forms)
            continue
        for path, make in parts[prefix]().items():
            item = make()
            if item:
                item = _path_v2(item)
                if names_taken and prefix in custom:
                    item = renamed(item, names_taken)
                names.update(references(item))
                section.add(path, shared.replaced(item))
    definitions: dict[str, Make] = {
        **{name: partial(definition_v2, name, style.enums) for name in closure(names)},
        **own,
    }
    parameters: dict[str, Make] = {name: partial(dict, value) for name, value in shared.by_name.items()}
    ours = {"definitions": definitions, "parameters": parameters}
    written = path_section(forms)
    theirs = {prefix: _written(forms, merge(ours, json_pieces.loads(told.text()))) for prefix, told in others}
    for part in (*order, section):
        written.join(theirs[part] if isinstance(part, str) else part)
    if theirs:
        definitions = {name: definitions[name] for name in sorted(definitions)}
    schemas = schema_section(forms, definitions)
    rest = {
        "swagger": "2.0",
        "info": style.info,
        "parameters": {name: parameters[name]() for name in sorted(parameters)},
        "securityDefinitions": BEARER,
        "security": [{"BearerToken": []}],
    }
    return [
        whole(form, {**dict.fromkeys(_FIELDS), **rest, "paths": path_text, "definitions": schema_text})
        for form, path_text, schema_text in zip(forms, written.texts, schemas.texts, strict=True)
    ]


def _renaming(make: Make, names: Mapping[tuple[str, str], str]) -> Object:
    definition: Object = renamed(make(), names)
    return definition


def _written(forms: Sequence[Form], items: Object) -> Section:
    section = path_section(forms)
    for path, item in entries(items):
        section.add(path, item)
    return section


class _SharedParameters:
    """Parameters of many operations, to which these refer."""

    def __init__(self) -> None:
        self.by_name: dict[str, Object] = {}
        self._names: dict[bytes, str] = {}

    def replaced(self, item: Object) -> Object:
        """The path item, in which parameters are replaced by references, in place."""
        for part in (item, *(item[method] for method in _METHODS & item.keys())):
            parameters = part.get("parameters", ())
            for position, parameter in enumerate(parameters):
                if _sharable(parameter):
                    parameters[position] = {"$ref": f"#/parameters/{self._name(parameter)}"}
        return item

    def _name(self, parameter: Object) -> str:
        text = _go_text(parameter)
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"{parameter['name']}-{_hash(text)}"
            self.by_name[name] = parameter
        return name


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
    """The media types of a body; operations on custom resources name them even when they take no body."""
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
