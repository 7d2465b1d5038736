"""The numbers of the fields of OpenAPI documents in protobuf (gnostic's ``OpenAPIv2.proto`` and ``OpenAPIv3.proto``)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from kapi.endpoints.openapi import protobuf, protobuf_v3
from tests.protobuf_fields import fields

#: message -> its fields in the order of their numbers; "x-" stands for all extensions
V2 = {
    "document":
        "swagger info host basePath schemes consumes produces paths definitions parameters responses security "
        "securityDefinitions tags externalDocs x-",
    "schema":
        "$ref format title description default multipleOf maximum exclusiveMaximum minimum exclusiveMinimum "
        "maxLength minLength pattern maxItems minItems uniqueItems maxProperties minProperties required enum "
        "additionalProperties type items allOf properties discriminator readOnly xml externalDocs example x-",
    "_info": "title version description termsOfService contact license x-",
    "_contact": "name url email x-",
    "_license": "name url x-",
    "_tag": "name description externalDocs x-",
    "_docs": "description url x-",
    "_xml": "name namespace prefix attribute wrapped x-",
    "_file_schema": "format title description default required type readOnly externalDocs example x-",
    "_reference": "$ref description",
    "_path_item": "$ref get put post delete options head patch parameters x-",
    "_operation":
        "tags summary description externalDocs operationId produces consumes parameters responses schemes "
        "deprecated security x-",
    "_response": "description schema headers examples x-",
    "_body_parameter": "description name in required schema x-",
    "_header_parameter":
        "required in description name type format items collectionFormat default maximum exclusiveMaximum minimum "
        "exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems enum multipleOf x-",
    "_query_parameter":
        "required in description name allowEmptyValue type format items collectionFormat default maximum "
        "exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems enum "
        "multipleOf x-",
    "_primitive_items":
        "type format items collectionFormat default maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
        "minLength pattern maxItems minItems uniqueItems enum multipleOf x-",
    "_header":
        "type format items collectionFormat default maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
        "minLength pattern maxItems minItems uniqueItems enum multipleOf description x-",
    "_basic": "type description x-",
    "_api_key": "type name in description x-",
    "_implicit": "type flow scopes authorizationUrl description x-",
    "_password": "type flow scopes tokenUrl description x-",
    "_access_code": "type flow scopes authorizationUrl tokenUrl description x-",
}  # fmt: skip
V3 = {
    "document": "openapi info servers paths components security tags externalDocs x-",
    "schema":
        "nullable discriminator readOnly writeOnly xml externalDocs example deprecated title multipleOf maximum "
        "exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems "
        "maxProperties minProperties required enum type allOf oneOf anyOf not items properties "
        "additionalProperties default description format x-",
    "_info": "title description termsOfService contact license version x- summary",
    "_contact": "name url email x-",
    "_license": "name url x-",
    "_docs": "description url x-",
    "_reference": "$ref summary description",
    "_components":
        "schemas responses parameters examples requestBodies headers securitySchemes links callbacks x-",
    "_path_item":
        "$ref summary description get put post delete options head patch trace servers parameters x-",
    "_operation":
        "tags summary description externalDocs operationId parameters requestBody responses callbacks deprecated "
        "security servers x-",
    "_parameter":
        "name in description required deprecated allowEmptyValue style explode allowReserved schema example "
        "examples content x-",
    "_request_body": "description content required x-",
    "_response": "description headers content links x-",
    "_media_type": "schema example examples encoding x-",
    "_header":
        "description required deprecated allowEmptyValue style explode allowReserved schema example examples "
        "content x-",
    "_security_scheme": "type description name in scheme bearerFormat flows openIdConnectUrl x-",
}  # fmt: skip
SAME = {
    "_form_parameter": "_query_parameter", "_path_parameter": "_header_parameter", "_application": "_password",
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name", "names"),
    [
        *((protobuf, name, names) for name, names in V2.items()),
        *((protobuf, name, V2[other]) for name, other in SAME.items()),
        *((protobuf_v3, name, names) for name, names in V3.items()),
    ],
)
def test_numbers(module: ModuleType, name: str, names: str) -> None:
    message, known = getattr(module, name), {word: number for number, word in enumerate(names.split(), 1)}
    assert {field: number for field, (number, _) in message.fields.items()} == {
        field: known[field] for field in message.fields
    }
    assert message.extensions == known.get("x-", 0)


def inside(data: bytes, path: tuple[int, ...]) -> list[Any]:
    found = [value for number, _, value in fields(data) if number == path[0]]
    return found if len(path) == 1 else [each for value in found for each in inside(value, path[1:])]


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        ({"components": {"schemas": {"n": ...}}}, (5, 1, 1, 2)),
        ({"components": {"responses": {"n": ...}}}, (5, 2, 1, 2)),
        ({"components": {"parameters": {"n": ...}}}, (5, 3, 1, 2)),
        ({"components": {"requestBodies": {"n": ...}}}, (5, 5, 1, 2)),
        ({"components": {"headers": {"n": ...}}}, (5, 6, 1, 2)),
        ({"components": {"securitySchemes": {"n": ...}}}, (5, 7, 1, 2)),
        ({"paths": {"/": {"parameters": [...]}}}, (4, 1, 2, 13)),
        ({"paths": {"/": {"get": {"requestBody": ...}}}}, (4, 1, 2, 4, 7)),
        ({"paths": {"/": {"get": {"responses": {"default": ...}}}}}, (4, 1, 2, 4, 8, 1)),
        ({"paths": {"/": {"get": {"responses": {"200": ...}}}}}, (4, 1, 2, 4, 8, 2, 2)),
    ],
)
def test_a_choice_of_a_value_and_a_reference(tree: Any, path: tuple[int, ...]) -> None:
    assert inside(protobuf_v3.document(filled(tree, {"$ref": "#/a"})), (*path, 2, 1)) == [b"#/a"]
    written = protobuf_v3.document(filled(tree, {"description": "d"}))
    (number,) = {number for value in inside(written, path) for number, _, _ in fields(value)}
    assert number == 1


def filled(tree: Any, value: Any) -> Any:
    if tree is ...:
        return value
    if isinstance(tree, list):
        return [filled(each, value) for each in tree]
    return {key: filled(each, value) for key, each in tree.items()}
