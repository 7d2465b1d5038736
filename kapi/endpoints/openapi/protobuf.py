"""The document of version 2 in protobuf, the form that ``kubectl`` prefers.

Upstream: kube-openapi ``handler`` ToProtoBinary; message and field numbers are those of gnostic's ``openapiv2/OpenAPIv2.proto``.
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
from kapi.machinery.tree import Tree
from kapi.schema.protobuf_writing import varint


def _additional_properties(tree: Tree) -> bytes:
    if isinstance(tree, bool):  # of a choice, zero is written as well
        return varint(2 << 3 | VARINT) + (b"\x01" if tree else b"\x00")
    return field(1, schema(tree))


def _listed(tree: Tree) -> Tree:
    return tree if isinstance(tree, list) else [tree]


def _type(tree: Tree) -> bytes:
    return each_string(1, _listed(tree))


def _items(tree: Tree) -> bytes:
    return b"".join([field(1, schema(item)) for item in _listed(tree)])


def _schema_item(tree: Tree) -> bytes:
    return field(2, _file_schema(tree)) if tree.get("type") == "file" else field(1, schema(tree))


def _or_reference(encode: Encode) -> Encode:
    """A choice of an inline value (1) and a reference (2)."""
    return lambda tree: field(2, _reference(tree)) if "$ref" in tree else field(1, encode(tree))


def _parameter(tree: Tree) -> bytes:
    if tree.get("in") == "body":
        return field(1, _body_parameter(tree))
    number, encode = _PLACES[tree["in"]]
    return field(2, field(number, encode(tree)))


def _security_definition(tree: Tree) -> bytes:
    number, encode = _SCHEMES[tree.get("flow") or tree["type"]]
    return field(number, encode(tree))


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


def _limits(first: int) -> dict[str, tuple[int, Writer]]:
    """The fields that parameters, headers and their items share, in their common order."""
    return numbered(
        first,
        type=string, format=string, items=one(_primitive_items), collectionFormat=string, default=any_value,
        maximum=double, exclusiveMaximum=boolean, minimum=double, exclusiveMinimum=boolean,
        maxLength=integer, minLength=integer, pattern=string, maxItems=integer, minItems=integer,
        uniqueItems=boolean, enum=many(any_value), multipleOf=double,
    )  # fmt: skip


_parameters = many(one(_or_reference(_parameter)))
_security = many(one(wrapped(named(wrapped(each_string)))))

document.fields = numbered(
    1,
    swagger=string, info=one(_info), host=string, basePath=string, schemes=each_string, consumes=each_string,
    produces=each_string, paths=one(_paths), definitions=one(wrapped(named(schema))),
    parameters=one(wrapped(named(_parameter))), responses=one(wrapped(named(_response))), security=_security,
    securityDefinitions=one(wrapped(named(_security_definition))), tags=many(one(_tag)), externalDocs=one(_docs),
)  # fmt: skip
_info.fields = numbered(
    1, title=string, version=string, description=string, termsOfService=string, contact=one(_contact),
    license=one(_license),
)  # fmt: skip
_contact.fields = numbered(1, name=string, url=string, email=string)
_license.fields = numbered(1, name=string, url=string)
_tag.fields = numbered(1, name=string, description=string, externalDocs=one(_docs))
_docs.fields = numbered(1, description=string, url=string)
_xml.fields = numbered(1, name=string, namespace=string, prefix=string, attribute=boolean, wrapped=boolean)
_reference.fields = {"$ref": (1, string), "description": (2, string)}

schema.fields = {
    "$ref": (1, string),
    **numbered(
        2,
        format=string, title=string, description=string, default=any_value, multipleOf=double, maximum=double,
        exclusiveMaximum=boolean, minimum=double, exclusiveMinimum=boolean, maxLength=integer, minLength=integer,
        pattern=string, maxItems=integer, minItems=integer, uniqueItems=boolean, maxProperties=integer,
        minProperties=integer, required=each_string, enum=many(any_value),
        additionalProperties=one(_additional_properties), type=one(_type), items=one(_items),
        allOf=many(one(schema)), properties=one(wrapped(named(schema))), discriminator=string, readOnly=boolean,
        xml=one(_xml), externalDocs=one(_docs), example=any_value,
    ),
}  # fmt: skip
_file_schema.fields = numbered(
    1, format=string, title=string, description=string, default=any_value, required=each_string, type=string,
    readOnly=boolean, externalDocs=one(_docs), example=any_value,
)  # fmt: skip

_path_item.fields = {
    "$ref": (1, string),
    **numbered(2, **dict.fromkeys(("get", "put", "post", "delete", "options", "head", "patch"), one(_operation))),
    "parameters": (9, _parameters),
}
_operation.fields = numbered(
    1,
    tags=each_string, summary=string, description=string, externalDocs=one(_docs), operationId=string,
    produces=each_string, consumes=each_string, parameters=_parameters, responses=one(_responses),
    schemes=each_string, deprecated=boolean, security=_security,
)  # fmt: skip
_response.fields = numbered(
    1, description=string, schema=one(_schema_item), headers=one(wrapped(named(_header))),
    examples=one(lambda tree: b"".join([field(1, string(1, name) + any_value(2, tree[name])) for name in tree])),
)  # fmt: skip

_body_parameter.fields = numbered(1, description=string, name=string, in_=string, required=boolean, schema=one(schema))
_placed = {"required": boolean, "in": string, "description": string, "name": string}
_header_parameter.fields = _path_parameter.fields = {**numbered(1, **_placed), **_limits(5)}
_form_parameter.fields = _query_parameter.fields = {**numbered(1, **_placed, allowEmptyValue=boolean), **_limits(6)}
_primitive_items.fields = _limits(1)
_header.fields = {**_limits(1), "description": (18, string)}
_PLACES: dict[str, tuple[int, Encode]] = {
    "header": (1, _header_parameter),
    "formData": (2, _form_parameter),
    "query": (3, _query_parameter),
    "path": (4, _path_parameter),
}

_scopes = one(lambda tree: b"".join([field(1, string(1, name) + string(2, tree[name])) for name in tree]))
_flow: dict[str, Writer] = {"type": string, "flow": string, "scopes": _scopes}
_basic.fields = numbered(1, type=string, description=string)
_api_key.fields = numbered(1, type=string, name=string, in_=string, description=string)
_implicit.fields = numbered(1, **_flow, authorizationUrl=string, description=string)
_password.fields = _application.fields = numbered(1, **_flow, tokenUrl=string, description=string)
_access_code.fields = numbered(1, **_flow, authorizationUrl=string, tokenUrl=string, description=string)
_SCHEMES: dict[str, tuple[int, Encode]] = {
    "basic": (1, _basic),
    "apiKey": (2, _api_key),
    "implicit": (3, _implicit),
    "password": (4, _password),
    "application": (5, _application),
    "accessCode": (6, _access_code),
}

FORM = Form(
    write_path=lambda path, item: named(_path_item)(2, {path: item}),
    write_schema=lambda name, value: named(schema)(1, {name: value}),
    separator=b"",
    write=lambda tree, out: write(document, tree, out),
)
