"""Documents of version 3 in protobuf.

Upstream: kube-openapi ``handler3`` ToV3ProtoBinary; message and field numbers are those of gnostic's
``openapiv3/OpenAPIv3.proto``, as far as documents of Kubernetes use them.
"""

from __future__ import annotations

from kapi.endpoints.openapi.messages import (
    VARINT,
    Encode,
    Message,
    Writer,
    any_value,
    boolean,
    double,
    each_string,
    field,
    integer,
    many,
    named,
    numbered,
    one,
    string,
    wrapped,
    write,
)
from kapi.endpoints.openapi.pieces import Form
from kapi.machinery.tree import Object, Tree
from kapi.request.packed import Packer
from kapi.schema.protobuf_writing import varint


def _or_reference(encode: Encode) -> Encode:
    """A choice of an inline value (1) and a reference (2)."""
    return lambda tree: field(2, _reference(tree)) if "$ref" in tree else field(1, encode(tree))


def _schema_or_reference(tree: Tree) -> bytes:
    return field(2, _reference(tree)) if "$ref" in tree else field(1, schema(tree))


def _items(tree: Tree) -> bytes:
    return b"".join([field(1, _schema_or_reference(item)) for item in (tree if isinstance(tree, list) else [tree])])


def _additional_properties(tree: Tree) -> bytes:
    if isinstance(tree, bool):  # of a choice, zero is written as well
        return _choice(2, tree)
    return field(1, _schema_or_reference(tree))


def _choice(number: int, value: bool) -> bytes:
    return varint(number << 3 | VARINT) + (b"\x01" if value else b"\x00")


def _default(tree: Tree) -> bytes:
    """A number, a boolean or a text; any other default is written without a value."""
    if isinstance(tree, bool):
        return _choice(2, tree)
    if isinstance(tree, (int, float)):
        return double(1, tree) or b"\x09" + bytes(8)
    return field(3, tree.encode()) if isinstance(tree, str) else b""


def _paths(tree: Tree) -> bytes:
    items = {key: value for key, value in tree.items() if key.startswith("/")}
    return named(_path_item)(1, items) + _extensions(2, tree)


def _responses(tree: Tree) -> bytes:
    codes = {key: value for key, value in tree.items() if key != "default" and not key.startswith("x-")}
    default = field(1, _response_or_reference(tree["default"])) if "default" in tree else b""
    return default + named(_response_or_reference)(2, codes) + _extensions(3, tree)


def _extensions(number: int, tree: Tree) -> bytes:
    return Message(number)({key: value for key, value in tree.items() if key.startswith("x-")})


document, schema = Message(9), Message(36)
_info, _contact, _license, _docs = Message(7), Message(4), Message(3), Message(3)
_reference, _components, _path_item, _operation = Message(), Message(10), Message(14), Message(13)
_parameter, _request_body, _response, _media_type = Message(14), Message(4), Message(5), Message(5)
_header, _security_scheme = Message(12), Message(9)
_response_or_reference = _or_reference(_response)

_schemas: Writer = many(one(_schema_or_reference))
_parameters: Writer = many(one(_or_reference(_parameter)))
_media_types: Writer = one(wrapped(named(_media_type)))
_headers: Writer = one(wrapped(named(_or_reference(_header))))
_security: Writer = many(one(wrapped(named(wrapped(each_string)))))


def _named_or_reference(encode: Encode) -> Writer:
    return one(wrapped(named(_or_reference(encode))))


document.fields = {
    **numbered(1, openapi=string, info=one(_info)),
    **numbered(4, paths=one(_paths), components=one(_components), security=_security),
    "externalDocs": (8, one(_docs)),
}
_info.fields = {
    **numbered(
        1, title=string, description=string, termsOfService=string, contact=one(_contact), license=one(_license),
        version=string,
    ),
    "summary": (8, string),
}  # fmt: skip
_contact.fields = numbered(1, name=string, url=string, email=string)
_license.fields = numbered(1, name=string, url=string)
_docs.fields = numbered(1, description=string, url=string)
_reference.fields = {"$ref": (1, string), **numbered(2, summary=string, description=string)}
_components.fields = {
    **numbered(
        1, schemas=one(wrapped(named(_schema_or_reference))), responses=_named_or_reference(_response),
        parameters=_named_or_reference(_parameter),
    ),
    **numbered(
        5, requestBodies=_named_or_reference(_request_body), headers=_headers,
        securitySchemes=_named_or_reference(_security_scheme),
    ),
}  # fmt: skip
_security_scheme.fields = {
    **numbered(1, type=string, description=string, name=string, in_=string, scheme=string, bearerFormat=string),
    "openIdConnectUrl": (8, string),
}
_path_item.fields = {
    "$ref": (1, string),
    **numbered(2, summary=string, description=string),
    **numbered(
        4, **dict.fromkeys(("get", "put", "post", "delete", "options", "head", "patch", "trace"), one(_operation))
    ),
    "parameters": (13, _parameters),
}
_operation.fields = {
    **numbered(
        1, tags=each_string, summary=string, description=string, externalDocs=one(_docs), operationId=string,
        parameters=_parameters, requestBody=one(_or_reference(_request_body)), responses=one(_responses),
    ),
    **numbered(10, deprecated=boolean, security=_security),
}  # fmt: skip
_shared: dict[str, Writer] = {
    "description": string, "required": boolean, "deprecated": boolean, "allowEmptyValue": boolean, "style": string,
    "explode": boolean, "allowReserved": boolean, "schema": one(_schema_or_reference), "example": any_value,
}  # fmt: skip
_parameter.fields = {**numbered(1, name=string, in_=string, **_shared), "content": (13, _media_types)}
_header.fields = {**numbered(1, **_shared), "content": (11, _media_types)}
_request_body.fields = numbered(1, description=string, content=_media_types, required=boolean)
_response.fields = numbered(1, description=string, headers=_headers, content=_media_types)
_media_type.fields = numbered(1, schema=one(_schema_or_reference), example=any_value)
schema.fields = {
    "nullable": (1, boolean),
    **numbered(3, readOnly=boolean, writeOnly=boolean),
    **numbered(
        6, externalDocs=one(_docs), example=any_value, deprecated=boolean, title=string, multipleOf=double,
        maximum=double, exclusiveMaximum=boolean, minimum=double, exclusiveMinimum=boolean, maxLength=integer,
        minLength=integer, pattern=string, maxItems=integer, minItems=integer, uniqueItems=boolean,
        maxProperties=integer, minProperties=integer, required=each_string, enum=many(any_value), type=string,
        allOf=_schemas, oneOf=_schemas, anyOf=_schemas, not_=one(schema), items=one(_items),
        properties=one(wrapped(named(_schema_or_reference))), additionalProperties=one(_additional_properties),
        default=one(_default), description=string, format=string,
    ),
}  # fmt: skip


def _write(tree: Object, out: Packer) -> None:
    components = Packer()
    write(_components, tree["components"], components)
    write(document, {**tree, "components": components}, out)


FORM = Form(
    write_path=lambda path, item: named(_path_item)(1, {path: item}),
    write_schema=lambda name, value: named(_schema_or_reference)(1, {name: value}),
    separator=b"",
    write=_write,
)
