"""The document of version 2 in protobuf, which is what ``kubectl`` asks for first.

Upstream: kube-openapi ``handler`` ToProtoBinary; message and field numbers are those of gnostic's ``openapiv2/OpenAPIv2.proto``.
What the format has no field for is left out, as are values that are the zero of their type (proto3).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from kapi.machinery.checkpoint import checkpoint
from kapi.schema.protobuf_writing import varint

Tree = Any
#: (field number, value) -> the encoded field, or fields
Writer = Callable[[int, Tree], bytes]
Encode = Callable[[Tree], bytes]
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def _field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | _BYTES) + varint(len(data)) + data


# -- values of fields


def string(number: int, value: Tree) -> bytes:
    return _field(number, value.encode()) if value else b""


def boolean(number: int, value: Tree) -> bytes:
    return varint(number << 3 | _VARINT) + b"\x01" if value else b""


def integer(number: int, value: Tree) -> bytes:
    return varint(number << 3 | _VARINT) + varint(int(value) & 0xFFFFFFFFFFFFFFFF) if value else b""


def double(number: int, value: Tree) -> bytes:
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value) if value else b""


def any_value(number: int, value: Tree) -> bytes:
    """A message that holds YAML; JSON is YAML."""
    return _field(number, string(2, json.dumps(value, ensure_ascii=False) + "\n"))


def one(encode: Encode) -> Writer:
    return lambda number, value: _field(number, encode(value))


def many(writer: Writer) -> Writer:
    return lambda number, values: b"".join([writer(number, value) for value in values])


def _each_string(number: int, values: Tree) -> bytes:
    return b"".join([_field(number, value.encode()) for value in values])


def named(encode: Encode) -> Writer:
    """A map as a list of names (1) and values (2)."""

    def write(number: int, value: Tree) -> bytes:
        return b"".join([_field(number, string(1, name) + _field(2, encode(item))) for name, item in value.items()])

    return write


def wrapped(writer: Writer) -> Encode:
    """A message of the one field 1."""
    return lambda value: writer(1, value)


# -- messages


class Message:
    """``fields``: what JSON calls them -> (number, writer).  ``extensions`` is the number of what begins with ``x-``."""

    def __init__(self, extensions: int = 0) -> None:
        self.fields: dict[str, tuple[int, Writer]] = {}
        self.extensions = extensions

    def __call__(self, tree: Tree) -> bytes:
        checkpoint()
        found: list[tuple[int, bytes]] = []
        for key, value in tree.items():
            field = self.fields.get(key)
            if field is not None:
                found.append((field[0], field[1](field[0], value)))
            elif self.extensions and key.startswith("x-"):
                found.append((self.extensions, _field(self.extensions, string(1, key) + any_value(2, value))))
        found.sort(key=lambda pair: pair[0])
        return b"".join([data for _, data in found])


def _additional_properties(tree: Tree) -> bytes:
    if isinstance(tree, bool):  # of a choice, zero is told as well
        return varint(2 << 3 | _VARINT) + (b"\x01" if tree else b"\x00")
    return _field(1, schema(tree))


def _listed(tree: Tree) -> Tree:
    return tree if isinstance(tree, list) else [tree]


def _type(tree: Tree) -> bytes:
    return _each_string(1, _listed(tree))


def _items(tree: Tree) -> bytes:
    return b"".join([_field(1, schema(item)) for item in _listed(tree)])


def _schema_item(tree: Tree) -> bytes:
    return _field(2, _file_schema(tree)) if tree.get("type") == "file" else _field(1, schema(tree))


def _or_reference(encode: Encode) -> Encode:
    """A choice of the thing itself (1) and a reference (2)."""
    return lambda tree: _field(2, _reference(tree)) if "$ref" in tree else _field(1, encode(tree))


def _parameter(tree: Tree) -> bytes:
    if tree.get("in") == "body":
        return _field(1, _body_parameter(tree))
    number, encode = _PLACES[tree["in"]]
    return _field(2, _field(number, encode(tree)))


def _security_definition(tree: Tree) -> bytes:
    number, encode = _SCHEMES[tree.get("flow") or tree["type"]]
    return _field(number, encode(tree))


def _paths(tree: Tree) -> bytes:
    extensions = {key: value for key, value in tree.items() if key.startswith("x-")}
    items = {key: value for key, value in tree.items() if key.startswith("/")}
    return Message(1)(extensions) + named(_path_item)(2, items)


def _responses(tree: Tree) -> bytes:
    codes = {key: value for key, value in tree.items() if not key.startswith("x-")}
    extensions = {key: value for key, value in tree.items() if key.startswith("x-")}
    return named(_or_reference(_response))(1, codes) + Message(2)(extensions)


document = Message(16)
schema = Message(31)
_info, _contact, _license, _tag, _docs, _xml = (Message(n) for n in (7, 4, 3, 4, 3, 6))
_file_schema, _reference = Message(10), Message()
_path_item, _operation, _response = Message(10), Message(13), Message(5)
_body_parameter, _header_parameter, _form_parameter, _query_parameter, _path_parameter = (
    Message(n) for n in (6, 22, 23, 23, 22)
)
_primitive_items, _header = Message(18), Message(19)
_basic, _api_key, _implicit, _password, _application, _access_code = (Message(n) for n in (3, 5, 6, 6, 6, 7))


def _numbered(first: int, **writers: Writer) -> dict[str, tuple[int, Writer]]:
    """Fields that follow each other; a trailing underscore keeps a name from being a keyword."""
    return {name.rstrip("_"): (first + place, writer) for place, (name, writer) in enumerate(writers.items())}


def _limits(first: int) -> dict[str, tuple[int, Writer]]:
    """What parameters, headers and their items share, in the order that all have."""
    return _numbered(
        first,
        type=string, format=string, items=one(_primitive_items), collectionFormat=string, default=any_value,
        maximum=double, exclusiveMaximum=boolean, minimum=double, exclusiveMinimum=boolean,
        maxLength=integer, minLength=integer, pattern=string, maxItems=integer, minItems=integer,
        uniqueItems=boolean, enum=many(any_value), multipleOf=double,
    )  # fmt: skip


_parameters = many(one(_or_reference(_parameter)))
_security = many(one(wrapped(named(wrapped(_each_string)))))

document.fields = _numbered(
    1,
    swagger=string, info=one(_info), host=string, basePath=string, schemes=_each_string, consumes=_each_string,
    produces=_each_string, paths=one(_paths), definitions=one(wrapped(named(schema))),
    parameters=one(wrapped(named(_parameter))), responses=one(wrapped(named(_response))), security=_security,
    securityDefinitions=one(wrapped(named(_security_definition))), tags=many(one(_tag)), externalDocs=one(_docs),
)  # fmt: skip
_info.fields = _numbered(
    1, title=string, version=string, description=string, termsOfService=string, contact=one(_contact),
    license=one(_license),
)  # fmt: skip
_contact.fields = _numbered(1, name=string, url=string, email=string)
_license.fields = _numbered(1, name=string, url=string)
_tag.fields = _numbered(1, name=string, description=string, externalDocs=one(_docs))
_docs.fields = _numbered(1, description=string, url=string)
_xml.fields = _numbered(1, name=string, namespace=string, prefix=string, attribute=boolean, wrapped=boolean)
_reference.fields = {"$ref": (1, string), "description": (2, string)}

schema.fields = {
    "$ref": (1, string),
    **_numbered(
        2,
        format=string, title=string, description=string, default=any_value, multipleOf=double, maximum=double,
        exclusiveMaximum=boolean, minimum=double, exclusiveMinimum=boolean, maxLength=integer, minLength=integer,
        pattern=string, maxItems=integer, minItems=integer, uniqueItems=boolean, maxProperties=integer,
        minProperties=integer, required=_each_string, enum=many(any_value),
        additionalProperties=one(_additional_properties), type=one(_type), items=one(_items),
        allOf=many(one(schema)), properties=one(wrapped(named(schema))), discriminator=string, readOnly=boolean,
        xml=one(_xml), externalDocs=one(_docs), example=any_value,
    ),
}  # fmt: skip
_file_schema.fields = _numbered(
    1, format=string, title=string, description=string, default=any_value, required=_each_string, type=string,
    readOnly=boolean, externalDocs=one(_docs), example=any_value,
)  # fmt: skip

_path_item.fields = {
    "$ref": (1, string),
    **_numbered(2, **dict.fromkeys(("get", "put", "post", "delete", "options", "head", "patch"), one(_operation))),
    "parameters": (9, _parameters),
}
_operation.fields = _numbered(
    1,
    tags=_each_string, summary=string, description=string, externalDocs=one(_docs), operationId=string,
    produces=_each_string, consumes=_each_string, parameters=_parameters, responses=one(_responses),
    schemes=_each_string, deprecated=boolean, security=_security,
)  # fmt: skip
_response.fields = _numbered(
    1, description=string, schema=one(_schema_item), headers=one(wrapped(named(_header))),
    examples=one(lambda tree: b"".join([_field(1, string(1, name) + any_value(2, tree[name])) for name in tree])),
)  # fmt: skip

_body_parameter.fields = _numbered(1, description=string, name=string, in_=string, required=boolean, schema=one(schema))
_placed = {"required": boolean, "in": string, "description": string, "name": string}
_header_parameter.fields = _path_parameter.fields = {**_numbered(1, **_placed), **_limits(5)}
_form_parameter.fields = _query_parameter.fields = {
    **_numbered(1, **_placed, allowEmptyValue=boolean),
    **_limits(6),
}
_primitive_items.fields = _limits(1)
_header.fields = {**_limits(1), "description": (18, string)}
_PLACES: dict[str, tuple[int, Encode]] = {
    "header": (1, _header_parameter),
    "formData": (2, _form_parameter),
    "query": (3, _query_parameter),
    "path": (4, _path_parameter),
}

_scopes = one(lambda tree: b"".join([_field(1, string(1, name) + string(2, tree[name])) for name in tree]))
_flow: dict[str, Writer] = {"type": string, "flow": string, "scopes": _scopes}
_basic.fields = _numbered(1, type=string, description=string)
_api_key.fields = _numbered(1, type=string, name=string, in_=string, description=string)
_implicit.fields = _numbered(1, **_flow, authorizationUrl=string, description=string)
_password.fields = _application.fields = _numbered(1, **_flow, tokenUrl=string, description=string)
_access_code.fields = _numbered(1, **_flow, authorizationUrl=string, tokenUrl=string, description=string)
_SCHEMES: dict[str, tuple[int, Encode]] = {
    "basic": (1, _basic),
    "apiKey": (2, _api_key),
    "implicit": (3, _implicit),
    "password": (4, _password),
    "application": (5, _application),
    "accessCode": (6, _access_code),
}
