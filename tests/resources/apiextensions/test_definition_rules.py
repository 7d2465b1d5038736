"""What a CustomResourceDefinition may say: each rule with its text, and what an update may keep."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from kapi.cel import TimeExceeded
from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.customresourcedefinitions import RESOURCE, _refuse_on_reactor
from tests.resources.strategy_kit import CTX, changes, made, problems, short

OBJECT: Object = {"type": "object"}
STRINGS: Object = {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(9)}}


def version(name: str = "v1", **parts: Any) -> Object:
    given = {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": OBJECT}, **parts}
    return {key: value for key, value in given.items() if value is not None}


def spec_of(**parts: Any) -> Object:
    names = {
        "plural": "things",
        "singular": "thing",
        "kind": "Thing",
        "listKind": "ThingList",
        **parts.pop("names", {}),
    }
    given = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version()], **parts}
    return {key: value for key, value in given.items() if value is not None}


def of_spec(**parts: Any) -> list[str]:
    return short(problems(RESOURCE, metadata={"name": "things.example.com"}, spec=spec_of(**parts)), "spec.")


def of_schema(schema: Object, **parts: Any) -> list[str]:
    found = of_spec(versions=[version(schema={"openAPIV3Schema": schema}, **parts)])
    return [text.replace("validation.openAPIV3Schema", "schema", 1) for text in found]


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({}, []),
        ({"group": ""}, [
             'metadata.name: Invalid value: "things.example.com": must be spec.names.plural+"."+spec.group',
             "group: Required value",
         ]),
        ({"group": "example"}, [
             'metadata.name: Invalid value: "things.example.com": must be spec.names.plural+"."+spec.group',
             'group: Invalid value: "example": should be a domain with at least one dot',
         ]),
        ({"group": "Example.com"}, [
             'metadata.name: Invalid value: "things.example.com": must be spec.names.plural+"."+spec.group',
             'group: Invalid value: "Example.com": <subdomain>',
         ]),
        ({"scope": ""}, ["scope: Required value"]),
        ({"scope": "Odd"}, ['scope: Unsupported value: "Odd": supported values: "Cluster", "Namespaced"']),
        ({"names": {"plural": ""}}, [
             'metadata.name: Invalid value: "things.example.com": must be spec.names.plural+"."+spec.group',
             "names.plural: Required value",
         ]),
        ({"names": {"singular": "T-", "kind": "1Thing", "listKind": "A_b"}}, [
             'names.singular: Invalid value: "T-": <DNS-1035 label>',
             'names.kind: Invalid value: "1Thing": may have mixed case, but should otherwise match: <DNS-1035 label>',
             'names.listKind: Invalid value: "A_b": may have mixed case, but should otherwise match: <DNS-1035 label>',
         ]),
        ({"names": {"kind": "Thing", "listKind": "Thing"}}, [
             'names.listKind: Invalid value: "Thing": kind and listKind may not be the same',
         ]),
        ({"names": {"shortNames": ["a", "A"], "categories": ["all", "-"]}}, [
             'names.shortNames[1]: Invalid value: "A": <DNS-1035 label>',
             'names.categories[1]: Invalid value: "-": <DNS-1035 label>',
         ]),
        ({"preserveUnknownFields": True}, [
             "preserveUnknownFields: Invalid value: true: cannot set to true, set "
             "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
         ]),
        ({"versions": [version(), version("v2", storage=False)]}, []),
        ({"versions": [version(), version("v2")]}, [
             "versions: Invalid value: "
             '[{"Name":"v1","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"S'
             'ubresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"v2","Served":true,"S'
             'torage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalP'
             'rinterColumns":null,"SelectableFields":null}]: must have exactly one version marked as storage version',
             'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2',
         ]),
        ({"versions": [version(), version(storage=False)]}, [
             "versions: Invalid value: "
             '[{"Name":"v1","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"S'
             'ubresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"v1","Served":true,"S'
             'torage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"Additional'
             'PrinterColumns":null,"SelectableFields":null}]: must contain unique version names',
         ]),
        ({"versions": [version("V1")]}, [
             'versions[0].name: Invalid value: "V1": <DNS-1035 label>',
             'version: Invalid value: "V1": <DNS-1035 label>',
         ]),
        ({"versions": [version(schema={}, subresources={}, storage=False)]}, [
             "versions[0].schema.openAPIV3Schema: Required value",
             "versions: Invalid value: "
             '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"'
             'Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have exactly one '
             "version marked as storage version",
             "status.storedVersions: Invalid value: null: must have at least one stored version",
         ]),
        ({"versions": [version(schema=None)]}, ["versions[0].schema.openAPIV3Schema: Required value"]),
        ({"versions": [version(schema=None, served=False)]}, ["versions[0].schema.openAPIV3Schema: Required value"]),
        ({"versions": [version(deprecationWarning="w")]}, [
             'versions[0].deprecationWarning: Invalid value: "w": can only be set for deprecated versions',
         ]),
        ({"versions": [version(deprecated=True, deprecationWarning="w" * 256)]}, []),
        ({"versions": [version(deprecated=True, deprecationWarning="w" * 257)]}, [
             "versions[0].deprecationWarning: Invalid value: "
             '"wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww'
             "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"
             'wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww": must be <= 256 characters long',
         ]),
        ({"versions": [version(deprecated=True, deprecationWarning="")]}, [
             'versions[0].deprecationWarning: Invalid value: "": must not be an empty string',
         ]),
        ({"versions": [version(deprecated=True, deprecationWarning="\u00e9 a\u00a0")]}, [
             'versions[0].deprecationWarning: Invalid value: "é a\\u00a0": must only contain printable UTF-8 '
             "characters; non-printable character found at index 4",
         ]),
    ],
)  # fmt: skip
def test_spec(parts: Object, texts: list[str]) -> None:
    assert of_spec(**parts) == texts


CLIENT: Object = {"url": "https://a.example.com"}
SERVICE: Object = {"service": {"namespace": "n", "name": "s"}}


@pytest.mark.parametrize(
    ("conversion", "texts"),
    [
        ({"strategy": "None"}, []),
        ({"strategy": "Odd"}, ['strategy: Unsupported value: "Odd": supported values: "None", "Webhook"']),
        ({"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}, [
             "conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
         ]),
        ({"strategy": "None", "webhook": {"clientConfig": CLIENT, "conversionReviewVersions": []}}, [
             "webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
         ]),
        ({"strategy": "Webhook"}, [
             "webhookClientConfig: Required value: required when strategy is set to Webhook",
             "conversionReviewVersions: Required value",
         ]),
        ({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}, [
             "webhookClientConfig: Required value: required when strategy is set to Webhook",
         ]),
        ({"strategy": "Webhook", "webhook": {"clientConfig": CLIENT, "conversionReviewVersions": ["v1"]}}, []),
        ({"strategy": "Webhook", "webhook": {"clientConfig": SERVICE, "conversionReviewVersions": ["v2", "v1beta1"]}}, []),
        ({"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v2"]}}, [
             "webhookClientConfig: Required value: exactly one of url or service is required",
             'conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1',
         ]),
        ({"strategy": "Webhook", "webhook": {"clientConfig": {**CLIENT, **SERVICE}, "conversionReviewVersions": []}}, [
             "webhookClientConfig: Required value: exactly one of url or service is required",
             "conversionReviewVersions: Required value",
         ]),
        ({"strategy": "Webhook",
          "webhook": {"clientConfig": {"url": "http://a"}, "conversionReviewVersions": ["v1", "v1", "-"]}}, [
             "webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: "
             "https://host[/path]",
             'conversionReviewVersions[1]: Invalid value: "v1": duplicate version',
             'conversionReviewVersions[2]: Invalid value: "-": <DNS-1035 label>',
         ]),
        ({"strategy": "Webhook",
          "webhook": {"clientConfig": {**CLIENT, "caBundle": "YQ=="}, "conversionReviewVersions": ["v1"]}}, []),
        ({"strategy": "Webhook",
          "webhook": {"clientConfig": {"service": {"port": 0}}, "conversionReviewVersions": ["v1"]}}, [
             # upstream tells of a missing namespace where the name is, and the other way round
             "webhookClientConfig.service.name: Required value",
             "webhookClientConfig.service.namespace: Required value",
             "webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
         ]),
    ],
)  # fmt: skip
def test_conversion(conversion: Object, texts: list[str]) -> None:
    assert short(of_spec(conversion=conversion), "conversion.") == texts


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}}}, []),
        ({"subresources": {"scale": {}}}, [
             "subresources.scale.specReplicasPath: Required value",
             "subresources.scale.statusReplicasPath: Required value",
         ]),
        ({"subresources": {"scale": {"specReplicasPath": "spec.a", "statusReplicasPath": "status.a",
                                     "labelSelectorPath": "spec.a"}}}, [
             'subresources.scale.specReplicasPath: Invalid value: "spec.a": must be a simple json path starting with .',
             'subresources.scale.statusReplicasPath: Invalid value: "status.a": must be a simple json path starting '
             "with .",
             'subresources.scale.labelSelectorPath: Invalid value: "spec.a": must be a simple json path starting with .',
         ]),
        ({"subresources": {"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": ".spec.a",
                                     "labelSelectorPath": ".a"}}}, [
             'subresources.scale.specReplicasPath: Invalid value: ".status.a": should be a json path under .spec',
             'subresources.scale.statusReplicasPath: Invalid value: ".spec.a": should be a json path under .status',
             'subresources.scale.labelSelectorPath: Invalid value: ".a": should be a json path under either .spec or '
             ".status",
         ]),
        ({"subresources": {"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a",
                                     "labelSelectorPath": ".spec.a"}}}, []),
        ({"additionalPrinterColumns": [
            {"name": "a", "type": kind, "format": "int32", "jsonPath": ".a"} for kind in ("date", "string")]}, []),
        ({"additionalPrinterColumns": [{}]}, [
             "additionalPrinterColumns[0].name: Required value",
             "additionalPrinterColumns[0].type: Required value: must be one of boolean,date,integer,number,string",
             "additionalPrinterColumns[0].JSONPath: Required value",
         ]),
        ({"additionalPrinterColumns": [{"name": "a", "type": "odd", "format": "odd", "jsonPath": "a"}]}, [
             'additionalPrinterColumns[0].type: Invalid value: "odd": must be one of boolean,date,integer,number,string',
             'additionalPrinterColumns[0].format: Invalid value: "odd": must be one of '
             "byte,date,date-time,double,float,int32,int64,password",
             'additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .',
         ]),
        ({"selectableFields": [{"jsonPath": f".f{i}"} for i in range(8)]}, []),
        ({"selectableFields": [{"jsonPath": f".f{i}"} for i in range(9)]}, [
             "selectableFields: Too many: 9: must have at most 8 items",
         ]),
        ({"selectableFields": [{"jsonPath": ".f0"}, {"jsonPath": ".f0"}, {}]}, [
             'selectableFields[1].jsonPath: Duplicate value: ".f0"',
             "selectableFields[2].jsonPath: Required value",
         ]),
        ({"selectableFields": [{"jsonPath": ".metadata.name"}, {"jsonPath": ".nothing"}, {"jsonPath": "f0"}]}, [
             'selectableFields[0].jsonPath: Invalid value: ".metadata.name": is an invalid path: does not refer to a '
             "valid field",
             'selectableFields[1].jsonPath: Invalid value: ".nothing": is an invalid path: does not refer to a valid '
             "field",
             'selectableFields[2].jsonPath: Invalid value: "f0": is an invalid path: expected [ or . but got: f0',
         ]),
    ],
)  # fmt: skip
def test_parts_of_a_version(parts: Object, texts: list[str]) -> None:
    assert of_schema(STRINGS, **parts) == texts


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({}, []),
        ({"schema": {"openAPIV3Schema": {**STRINGS, "nullable": True}}}, [
             ".schema.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root",
         ]),
        ({"subresources": {"scale": {"specReplicasPath": ".spec.a"}}}, [
             ".subresources.scale.statusReplicasPath: Required value",
         ]),
        ({"additionalPrinterColumns": [{"name": "a", "type": "string"}]}, [
             ".additionalPrinterColumns[0].JSONPath: Required value",
         ]),
        ({"schema": None, "selectableFields": [{"jsonPath": ".f0"}]}, [
             ".schema.openAPIV3Schema: Required value",
             '.selectableFields: Invalid value: "": may only be set when `version.schema.openAPIV3Schema` is not included',
         ]),
        ({"selectableFields": [{}]}, [".selectableFields[0].jsonPath: Required value"]),
    ],
)  # fmt: skip
def test_a_version_that_differs_from_the_others(parts: Object, texts: list[str]) -> None:
    """What is the same in all versions is a part of the spec, as the internal type has it."""
    other = {"schema": {"openAPIV3Schema": STRINGS}, **parts}
    assert short(of_spec(versions=[version(), version("v2", storage=False, **other)]), "versions[1]") == texts


def test_fields_to_select_by_without_a_schema() -> None:
    assert of_spec(versions=[version(schema=None, selectableFields=[{"jsonPath": ".f0"}])]) == [
        "versions[0].schema.openAPIV3Schema: Required value",
        'selectableFields: Invalid value: "": may only be set when validations.schema is included',
    ]


def test_a_definition_without_a_version_to_store() -> None:
    *_, found = of_spec(versions=[version(storage=False)])
    assert found == "status.storedVersions: Invalid value: null: must have at least one stored version"


NAMED: Object = {
    "type": "object",
    "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    ("schema", "path", "texts"),
    [
        (NAMED, ".metadata.name", ["must not point to fields in metadata"]),
        ({"type": "object", "properties": {"a": OBJECT}}, ".a", [
             "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are "
             "allowed.",
         ]),
    ],
)  # fmt: skip
def test_a_field_to_select_by(schema: Object, path: str, texts: list[str]) -> None:
    found = of_schema(schema, selectableFields=[{"jsonPath": path}])
    assert short(found, f'selectableFields[0].jsonPath: Invalid value: "{path}": ') == texts


APPROVAL = "api-approved.kubernetes.io"


def test_a_protected_group_needs_an_approval() -> None:
    wanted = [
        f'metadata.annotations[{APPROVAL}]: Required value: protected groups must have approval annotation "{APPROVAL}", '
        "see https://github.com/kubernetes/enhancements/pull/1111"
    ]
    spec, name = spec_of(group="a.k8s.io"), {"name": "things.a.k8s.io"}
    assert problems(RESOURCE, metadata=name, spec=spec) == wanted
    approved = {**name, "annotations": {APPROVAL: "https://github.com/kubernetes/enhancements/pull/1111"}}
    old = made(RESOURCE, metadata=approved, spec=spec)
    assert changes(RESOURCE, old) == []
    assert changes(RESOURCE, old, metadata={**name, "uid": "u", "resourceVersion": "1", "generation": 1}) == wanted


def test_the_root_is_not_nullable() -> None:
    assert of_schema({"type": "object", "nullable": True}) == [
        "schema.nullable: Forbidden: nullable cannot be true at the root"
    ]


def test_a_schema_names_no_other_schema() -> None:
    assert of_schema({"type": "object", "$schema": "http://json-schema.org/schema#"}) == [
        "schema: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"
    ]


def test_the_cost_of_all_rules() -> None:
    """Each rule alone is cheap enough, all of them are not."""
    item = {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self != 'a'"}]}

    def lists(count: int) -> list[str]:
        properties = {f"p{number}": {"type": "array", "maxItems": 5_000_000, "items": item} for number in range(count)}
        return of_schema({"type": "object", "properties": properties})

    assert lists(10) == []
    assert lists(11) == [
        *(
            f"schema.properties[p{number}].items.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule "
            "cost total exceeding cost limit for entire OpenAPIv3 schema"
            for number in range(4)
        ),
        "schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by "
        "factor of 1.100000x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, "
        "and strings are declared)",
    ]


def test_the_root_has_few_keywords_beside_a_status() -> None:
    status = {"subresources": {"status": {}}}
    assert (
        of_schema({"type": "object", "description": "d", "required": ["a"], "properties": {"a": OBJECT}}, **status)
        == []
    )
    text, *_ = of_schema({"type": "object", "minProperties": 1}, **status)
    assert "fields are allowed at the root of the schema if the status subresource is enabled" in text
    assert of_schema({"type": "object", "minProperties": 1}) == []
    found = of_schema({"type": "array", "items": OBJECT}, **status)
    assert any('only "object" is allowed as the type at the root of the schema' in text for text in found), found


def test_messages_show_a_whole_schema_with_all_fields_of_its_type() -> None:
    """Its nested schemas, too, with the alternatives that a field may hold."""
    nested: Object = {"type": "array", "items": {"type": "string"}, "enum": [{"b": 1, "a": 2}]}
    schema = {
        "type": "object",
        "properties": {"z": OBJECT, "a": nested},
        "additionalProperties": True,
        "oneOf": [OBJECT],
    }
    text = of_schema(schema, subresources={"status": {}})[0]
    shown = json.loads(text.partition("Invalid value: ")[2].partition(": only [")[0])
    assert list(shown)[:6] == ["ID", "Schema", "Ref", "Description", "Type", "Nullable"]
    assert list(shown["Properties"]) == ["a", "z"]
    assert shown["AdditionalProperties"] == {"Allows": True, "Schema": None}
    items = shown["Properties"]["a"]["Items"]
    assert (items["Schema"]["Type"], items["JSONSchemas"], items["Schema"]["XListType"]) == ("string", None, None)
    assert [each["Type"] for each in shown["OneOf"]] == ["object"]
    assert '"Enum":[{"a":2,"b":1}]' in text


def test_messages_show_the_whole_versions() -> None:
    parts: Object = {
        "schema": {"openAPIV3Schema": STRINGS},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}},
        "additionalPrinterColumns": [{"name": "C", "type": "string", "jsonPath": ".f0"}],
        "selectableFields": [{"jsonPath": ".f0"}],
    }
    text = next(
        text
        for text in of_spec(versions=[version(storage=False, **parts), version("v2", storage=False)])
        if "versions: " in text
    )
    shown = json.loads(text.partition("Invalid value: ")[2].partition(": must have exactly")[0])[0]
    assert shown["Schema"]["OpenAPIV3Schema"]["Properties"]["f0"]["Type"] == "string"
    scale = {"SpecReplicasPath": ".spec.a", "StatusReplicasPath": ".status.a", "LabelSelectorPath": None}
    assert shown["Subresources"] == {"Status": {}, "Scale": scale}
    assert shown["AdditionalPrinterColumns"] == [
        {"Name": "C", "Type": "string", "Format": "", "Description": "", "Priority": 0, "JSONPath": ".f0"}
    ]
    assert shown["SelectableFields"] == [{"JSONPath": ".f0"}]


def below(schema: Object) -> list[str]:
    """Errors of a property."""
    found = of_schema({"type": "object", "properties": {"p": schema}})
    return short(found, "schema.properties[p].")


ITEMS: Object = {"type": "object", "properties": {"k": {"type": "string"}, "o": {"type": "object"}}}
KEYED: Object = {"type": "array", "items": {**ITEMS, "required": ["k"]}, "x-kubernetes-list-type": "map",
                 "x-kubernetes-list-map-keys": ["k"]}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ({"type": "string"}, []),
        ({"type": "odd"}, [
             'type: Unsupported value: "odd": supported values: "array", "boolean", "integer", "number", "object", '
             '"string"',
         ]),
        ({"type": "null"}, [
             'type: Unsupported value: "null": supported values: "array", "boolean", "integer", "number", "object", '
             '"string"',
             "type: Forbidden: type cannot be set to null, use nullable as an alternative",
         ]),
        ({}, ["type: Required value: must not be empty for specified object fields"]),
        ({"type": "string", "id": "i", "$ref": "r"}, [
             "id: Forbidden: id is not supported",
             "$ref: Forbidden: $ref is not supported",
         ]),
        ({"type": "object", "uniqueItems": True}, [
             "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
         ]),
        ({"type": "array", "items": []}, ["items: Required value: must be specified"]),
        ({"type": "string", "items": []}, []),
        ({**KEYED, "items": []}, [
             "items: Required value: must be specified",
             'items: Invalid value: {"Schema":null,"JSONSchemas":[]}: must only have a single schema if '
             "x-kubernetes-list-type is map",
         ]),
        ({"type": "object", "default": {"b": 1, "a": {"d": 2, "c": 3}}}, [
             'default: Invalid value: {"a":{"c":3,"d":2},"b":1}: must not have unknown fields',
         ]),
        ({"type": "array", "items": [OBJECT]}, ["items: Forbidden: items must be a schema object and not an array"]),
        ({"type": "array", "items": OBJECT, "additionalItems": False}, [
             "additionalItems: Forbidden: additionalItems is not supported",
         ]),
        ({"type": "object", "patternProperties": {"a": OBJECT}, "definitions": {"b": OBJECT}, "dependencies": {"c": ["d"]}}, [
             "patternProperties: Forbidden: patternProperties is not supported",
             "definitions: Forbidden: definitions is not supported",
             "dependencies: Forbidden: dependencies is not supported",
         ]),
        ({"type": "object", "properties": {"a": OBJECT}, "additionalProperties": {"type": "string"}}, [
             "additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
         ]),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": False}, [
             "x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
         ]),
        ({"type": "object", "x-kubernetes-map-type": "granular"}, []),
        ({"type": "object", "x-kubernetes-map-type": "odd"}, [
             'x-kubernetes-map-type: Unsupported value: "odd": supported values: "atomic", "granular"',
         ]),
        ({"type": "string", "x-kubernetes-map-type": "atomic"}, [
             'type: Invalid value: "string": must be object if x-kubernetes-map-type is specified',
         ]),
        ({"type": "string", "x-kubernetes-list-type": "atomic"}, [
             'type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
         ]),
        ({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, []),
        ({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "odd"}, [
             'x-kubernetes-list-type: Unsupported value: "odd": supported values: "atomic", "set", "map"',
         ]),
        ({"type": "array", "items": {"type": "string", "nullable": True}, "x-kubernetes-list-type": "set"}, [
             "items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
         ]),
        ({"type": "array", "items": OBJECT, "x-kubernetes-list-type": "set"}, [
             "items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
             "x-kubernetes-list-type=set",
         ]),
        ({"type": "array", "items": {"type": "object", "x-kubernetes-map-type": "atomic"}, "x-kubernetes-list-type": "set"}, []),
        ({"type": "array", "items": {"type": "array", "items": OBJECT, "x-kubernetes-list-type": "set"},
          "x-kubernetes-list-type": "set"}, [
             "items.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
             "x-kubernetes-list-type=set",
             'items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item of a list with '
             "x-kubernetes-list-type=set",
         ]),
        ({"type": "array", "items": {"type": "array", "items": OBJECT}, "x-kubernetes-list-type": "set"}, []),
        (KEYED, []),
        ({**KEYED, "items": ITEMS}, [
             "items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must "
             "have a default or be a required property",
         ]),
        ({**KEYED, "x-kubernetes-list-map-keys": ["k", "k", "x", "o"]}, [
             'x-kubernetes-list-map-keys: Invalid value: ["k","k","x","o"]: must not contain duplicate entries',
             'x-kubernetes-list-map-keys: Invalid value: ["k","k","x","o"]: entries must all be names of item properties',
             "items.properties[o].type: Invalid value: \"object\": must be a scalar type if parent array's "
             "x-kubernetes-list-type is map",
             "items.properties[o].default: Required value: this property is in x-kubernetes-list-map-keys, so it must "
             "have a default or be a required property",
         ]),
        ({**KEYED, "x-kubernetes-list-map-keys": []}, [
             "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
         ]),
        ({**KEYED, "x-kubernetes-list-type": "atomic"}, [
             'x-kubernetes-list-type: Invalid value: "atomic": must be map if x-kubernetes-list-map-keys is non-empty',
         ]),
        ({"type": "array", "items": ITEMS, "x-kubernetes-list-map-keys": ["k"]}, [
             "x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
         ]),
        ({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}, [
             "items: Required value: must be specified",
             "items: Required value: must have a schema if x-kubernetes-list-type is map",
         ]),
        ({**KEYED, "items": {"type": "string"}}, [
             "items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
         ]),
        ({**KEYED, "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "nullable": True}}}}, [
             "items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot "
             "be nullable",
         ]),
        ({**KEYED, "items": {"type": "object", "properties": {"k": {"type": "string", "default": "a"}}}}, []),
        ({"type": "string", "default": "a", "maxLength": 1}, []),
        ({"type": "string", "default": "ab", "maxLength": 1}, ["default: Too long: may not be more than 1 byte"]),
        ({"type": "object", "default": {"a": 1}}, ['default: Invalid value: {"a":1}: must not have unknown fields']),
        ({"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True,
          "default": {"apiVersion": "v1", "kind": "A", "metadata": 5}}, [
             "default.metadata: Invalid value: 5: json: cannot unmarshal number into Go value of type v1.ObjectMeta",
         ]),
        ({"type": "object", "not": {"default": 1}}, ["not.default: Forbidden: must be undefined to be structural"]),
        ({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}, [
             "additionalProperties.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity "
             "becomes quadratic",
         ]),
        ({"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"metadata": {"type": "object",
          "properties": {"name": {"type": "string", "x-kubernetes-embedded-resource": True}}}}}, [
             "properties[metadata].properties[name].properties: Required value: must not be empty if "
             "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
             'properties[metadata].properties[name].type: Invalid value: "string": must be object if '
             "x-kubernetes-embedded-resource is true",
             "properties[metadata].properties[name].x-kubernetes-embedded-resource: Forbidden: must not be used "
             "inside of resource meta",
         ]),
    ],
)  # fmt: skip
def test_schema(schema: Object, texts: list[str]) -> None:
    assert below(schema) == texts


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        ({"rule": "self.size() > 0"}, []),
        ({"rule": " "}, ["rule: Required value: rule is not specified"]),
        ({"rule": "true", "message": " "}, ['message: Invalid value: " ": must be non-empty if specified']),
        ({"rule": "true", "message": "a\nb"}, ['message: Invalid value: "a\\nb": must not contain line breaks']),
        ({"rule": "true\n&& true"}, [
             "message: Required value: message must be specified if rule contains line breaks",
         ]),
        ({"rule": "true\n&& true", "message": "m"}, []),
        ({"rule": "true", "messageExpression": " "}, [
             "messageExpression: Required value: messageExpression must be non-empty if specified",
         ]),
        ({"rule": "true", "messageExpression": "1"}, [
             "messageExpression: Invalid value: "
             '{"Rule":"true","Message":"","MessageExpression":"1","Reason":null,"FieldPath":"","OptionalOldSelf":null}'
             ": messageExpression must evaluate to a string",
         ]),
        ({"rule": "true", "messageExpression": "'a'", "reason": "FieldValueRequired"}, []),
        ({"rule": "true", "reason": "Odd"}, [
             'reason: Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
             '"FieldValueInvalid", "FieldValueRequired"',
         ]),
        ({"rule": "true", "fieldPath": " "}, [
             'fieldPath: Invalid value: " ": must be non-empty if specified',
             'fieldPath: Invalid value: " ": must be a valid path',
         ]),
        ({"rule": "true", "fieldPath": ".a\n"}, [
             'fieldPath: Invalid value: ".a\\n": must not contain line breaks',
             'fieldPath: Invalid value: ".a\\n": must be a valid path',
         ]),
        ({"rule": "true", "fieldPath": ".nothing"}, ['fieldPath: Invalid value: ".nothing": must be a valid path']),
        ({"rule": "1"}, [
             "rule: Invalid value: "
             '{"Rule":"1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: '
             "cel expression must evaluate to a bool",
         ]),
        ({"rule": "self == oldSelf", "optionalOldSelf": False}, []),
        ({"rule": "true", "optionalOldSelf": True}, [
             "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
         ]),
    ],
)  # fmt: skip
def test_rule(rule: Object, texts: list[str]) -> None:
    assert short(below({"type": "string", "maxLength": 9, "x-kubernetes-validations": [rule]}),
                 "x-kubernetes-validations[0].") == texts  # fmt: skip


def test_old_values_of_items_are_known_only_by_their_keys() -> None:
    rule = {"rule": "self == oldSelf"}
    item = {
        "type": "object",
        "properties": {"k": {"type": "string", "maxLength": 9}},
        "x-kubernetes-validations": [rule],
    }
    keyed = {**KEYED, "maxItems": 3, "items": {**item, "required": ["k"]}}
    assert below(keyed) == []
    text = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
    [error] = below({"type": "array", "maxItems": 3, "items": item})
    assert text in error and "properties[p]" in error
    atomic = {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": item}}
    assert below(atomic) == []
    odd = {"type": "object", "x-kubernetes-map-type": "odd", "properties": {"a": item}}
    found = below(odd)
    assert [text in error for error in found] == [False, True]
    inner = {"type": "array", "maxItems": 3, "items": odd}
    assert [text in error and "properties[p]" in error for error in below(inner)] == [False, True]


ESTABLISHED: Object = {
    "conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"],
    "acceptedNames": {"plural": "things", "kind": "Thing"},
}  # fmt: skip


def of_change(before: Object, after: Object, **parts: Any) -> list[str]:
    old = made(RESOURCE, metadata={"name": "things.example.com"}, spec=spec_of(**before))
    new = made(RESOURCE, metadata={"name": "things.example.com"}, spec=spec_of(**after))
    return short(changes(RESOURCE, {**old, "status": {**ESTABLISHED, **parts}}, spec=new["spec"]), "spec.")


TYPED: Object = {
    "versions": [version(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "odd"}}}})]
}
FIELDS: Object = {
    "versions": [
        version(schema={"openAPIV3Schema": STRINGS}, selectableFields=[{"jsonPath": f".f{i}"} for i in range(9)])
    ]
}


DIFFERENT: Object = {"versions": [*TYPED["versions"], version("v2", storage=False)]}
DEFAULTED: Object = {
    "versions": [
        version(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}}})
    ]
}
PRESERVED: Object = {"preserveUnknownFields": True}
LISTS: Object = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
SET = "validation.openAPIV3Schema.properties[a].items.x-kubernetes-"
ATOMIC = "must be atomic as item of a list with x-kubernetes-list-type=set"


def with_property(schema: Object, **parts: Any) -> Object:
    """With a version whose schema has this property."""
    return {**parts, "versions": [version(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": schema}}})]}


def sets(items: Object) -> Object:
    """With a version that has a set of these."""
    return with_property({"type": "array", "x-kubernetes-list-type": "set", "items": items})


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ({}, {}, []),
        (DIFFERENT, DIFFERENT, []),
        (PRESERVED, {**PRESERVED, **DEFAULTED}, [
             "preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema",
         ]),
        (PRESERVED, {**PRESERVED, "conversion": {"strategy": "Webhook", "webhook": {
            "clientConfig": CLIENT, "conversionReviewVersions": ["v1"]}}}, [
             'conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is true',
         ]),
        ({}, {"conversion": {"strategy": "Webhook", "webhook": {
            "clientConfig": {**CLIENT, "caBundle": "YQ=="}, "conversionReviewVersions": ["v1"]}}}, [
             'conversion.webhookClientConfig.caBundle: Invalid value: "YQ==": unable to load root certificates: '
             "unable to parse bytes as PEM block",
         ]),
        ({}, {"group": "other.com"}, ['group: Invalid value: "other.com": field is immutable']),
        ({}, {"names": {"plural": "others"}}, ['names.plural: Invalid value: "others": field is immutable']),
        ({}, {"names": {"kind": "Other"}}, ['names.kind: Invalid value: "Other": field is immutable']),
        ({}, {"scope": "Cluster"}, ['scope: Invalid value: "Cluster": field is immutable']),
        ({}, {"versions": [version("v2")]}, [
             'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage '
             "version, and must remain in spec.versions until a storage migration ensures no data remains persisted "
             "in v1 and removes v1 from status.storedVersions",
         ]),
        ({}, {"versions": [version("v2"), version(storage=False)]}, []),
        ({}, {"versions": [version(schema=None)]}, ["versions[0].schema.openAPIV3Schema: Required value"]),
        ({"versions": [version(schema=None)]}, {"versions": [version(schema=None)]}, [
             "versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned",
         ]),
        (TYPED, TYPED, []),
        ({}, TYPED, [
             'validation.openAPIV3Schema.properties[a].type: Unsupported value: "odd": supported values: "array", '
             '"boolean", "integer", "number", "object", "string"',
         ]),
        (FIELDS, FIELDS, []),
        ({"versions": [version(schema={"openAPIV3Schema": STRINGS})]}, FIELDS, [
             "selectableFields: Too many: 9: must have at most 8 items",
         ]),
        ({"preserveUnknownFields": True}, {"preserveUnknownFields": True}, []),
        ({}, {"preserveUnknownFields": True}, [
             "preserveUnknownFields: Invalid value: true: cannot set to true, set "
             "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
         ]),
        ({**PRESERVED, "versions": [version(schema=None)]}, {**PRESERVED, "versions": [version(schema=None)]}, []),
        ({"versions": [version(schema=None)]}, {"versions": [version(schema=None, served=False)]}, []),
        (sets({"type": "string"}), sets(OBJECT), [f"{SET}map-type: Invalid value: null: {ATOMIC}"]),
        (sets({"type": "string"}), sets(LISTS), [f'{SET}list-type: Invalid value: "set": {ATOMIC}']),
        (sets({"type": "array", "items": OBJECT}), sets(OBJECT), [f"{SET}map-type: Invalid value: null: {ATOMIC}"]),
        (sets({**OBJECT, "x-kubernetes-map-type": "atomic"}), sets(OBJECT),
         [f"{SET}map-type: Invalid value: null: {ATOMIC}"]),
        (sets(OBJECT), sets(LISTS), []),
        (sets(LISTS), sets(OBJECT), []),
    ],
)  # fmt: skip
def test_update(before: Object, after: Object, texts: list[str]) -> None:
    assert of_change(before, after) == texts


@pytest.mark.parametrize(
    "extension",
    [
        {"x-kubernetes-embedded-resource": True}, {"x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-int-or-string": True}, {"x-kubernetes-list-type": "atomic"},
        {"x-kubernetes-validations": [{"rule": "true"}]}, {"default": "b"}, {},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_with_an_extension_becomes_structural(extension: Object) -> None:
    """Without one, a definition that keeps unknown fields may also keep a schema that is not structural."""

    def changed(schema: Object) -> Object:
        return with_property({"type": "object", "properties": {"odd": {}, "b": schema}}, **PRESERVED)

    found = of_change(changed({}), changed(extension))
    lacking = "properties[odd].type: Required value: must not be empty for specified object fields"
    assert any(lacking in text for text in found) == bool(extension), found


def test_names_may_change_before_they_are_established() -> None:
    pending = [{"type": "Established", "status": "False"}]
    assert of_change({}, {"scope": "Cluster", "names": {"kind": "Other"}}, conditions=pending) == []


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        ({"plural": "things", "kind": "Thing"}, []),
        ({"plural": "Things", "kind": "1", "listKind": "1", "shortNames": ["A"]}, [
             'plural: Invalid value: "Things": <DNS-1035 label>',
             'kind: Invalid value: "1": may have mixed case, but should otherwise match: <DNS-1035 label>',
             'listKind: Invalid value: "1": may have mixed case, but should otherwise match: <DNS-1035 label>',
             'shortNames[0]: Invalid value: "A": <DNS-1035 label>',
             'listKind: Invalid value: "1": kind and listKind may not be the same',
         ]),
    ],
)  # fmt: skip
def test_status(names: Object, texts: list[str]) -> None:
    old = made(RESOURCE, metadata={"name": "things.example.com"}, spec=spec_of())
    status = {**tree.copy(ESTABLISHED), "acceptedNames": names}
    found = changes(RESOURCE, {**old, "status": ESTABLISHED}, subresource="status", status=status)
    assert short(found, "status.acceptedNames.") == texts


@pytest.mark.parametrize("subresource", ["", "status"])
def test_the_name_stays(subresource: str) -> None:
    old = made(RESOURCE, metadata={"name": "things.example.com"}, spec=spec_of())
    metadata = {**old["metadata"], "name": "others.example.com", "uid": "u", "resourceVersion": "1"}
    assert changes(RESOURCE, {**old, "status": ESTABLISHED}, subresource=subresource, metadata=metadata) == [
        'metadata.name: Invalid value: "others.example.com": field is immutable'
    ]


def test_finalizers_of_a_definition_need_no_domain() -> None:
    old = made(RESOURCE, metadata={"name": "things.example.com"}, spec=spec_of())
    metadata = {**old["metadata"], "finalizers": ["plain"], "uid": "u", "resourceVersion": "1"}
    old["metadata"]["uid"] = "u"
    assert changes(RESOURCE, {**old, "status": ESTABLISHED}, metadata=metadata) == []


def embedded(**metadata: Any) -> Object:
    """An object in an object, with properties of its metadata."""
    properties = {"metadata": {"type": "object", "properties": metadata}}
    return {"type": "object", "x-kubernetes-embedded-resource": True, "properties": properties}


@pytest.mark.parametrize(
    ("metadata", "texts"),
    [
        ({"name": {"type": "string", "default": "a"}}, []),
        ({"name": {"type": "string", "default": "A_"}}, []),
        ({"name": {"type": "string", "default": "ab", "maxLength": 1}}, [
             "[name].default: Too long: may not be more than 1 byte",
         ]),
        ({"name": {"type": "string", "default": "a", "x-kubernetes-validations": [{"rule": "self == 'b'"}]}}, [
             "[name].default: Invalid value: \"a\": failed rule: self == 'b'",
         ]),
        ({"generation": {"type": "string", "default": "a"}}, [
             '[generation].default: Invalid value: "a": must result in valid metadata: metadata: Invalid value: '
             '{"generation":"a"}: json: cannot unmarshal string into Go struct field ObjectMeta.generation of type '
             "int64",
         ]),
        ({"labels": {"type": "object", "default": {"a": "b"}, "additionalProperties": {"type": "string"}}}, []),
        ({"labels": {"type": "object", "default": {"-": "b"}, "additionalProperties": {"type": "string"}}}, [
             '[labels].default: Invalid value: {"-":"b"}: must result in valid metadata: metadata.labels: Invalid '
             'value: "-": <name part>',
         ]),
        ({"finalizers": {"type": "array", "items": {"type": "string", "default": "a.com/b"}}}, []),
        ({"finalizers": {"type": "array", "items": {"type": "string", "default": "-"}}}, [
             '[finalizers].items.default: Invalid value: "-": must result in valid metadata: metadata.finalizers: '
             'Invalid value: "-": <name part>',
         ]),
        ({"finalizers": {"type": "array", "default": ["a.com/b"], "items": {"type": "string"}}}, []),
    ],
)  # fmt: skip
def test_defaults_in_metadata_of_embedded_objects(metadata: Object, texts: list[str]) -> None:
    assert short(below(embedded(**metadata)), "properties[metadata].properties") == texts


def test_defaults_in_metadata_of_the_object_itself() -> None:
    named = {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "a/b"}}}}
    path = "schema.properties[metadata].properties[name].default"
    assert of_schema({"type": "object", "properties": named}) == [
        f'{path}: Invalid value: "a/b": must result in valid metadata: metadata.name: Invalid value: "a/b": '
        "may not contain '/'",
        f"{path}: Forbidden: must not be set in top-level metadata",
    ]


@pytest.mark.parametrize("where", ["properties", "items", "additionalProperties"])
def test_metadata_below_is_that_of_any_field(where: str) -> None:
    named = {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "a/b"}}}}
    inner = {"type": "object", "properties": {**named, "kind": {"type": "string", "default": "K"}}}
    outer = {"type": "array" if where == "items" else "object", where: {"a": inner} if where == "properties" else inner}
    assert of_schema({"type": "object", "properties": {"b": outer}}) == []


def test_a_large_definition_is_not_validated_on_the_reactor() -> None:
    """Where it may take less than a second there is no thread.  Its size is that of its schemas and rules."""
    schema: Object = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "r" * 700, "messageExpression": "m" * 48}],
    }
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}, {}, {"schema": {"openAPIV3Schema": schema}}]}}
    large = {"spec": {"versions": [*crd["spec"]["versions"], {"schema": {"openAPIV3Schema": {}}}]}}
    for seconds, refused in ((0.0, False), (0.001, True), (0.999, True), (1.0, False)):
        ctx = replace(CTX, validation_seconds=seconds)
        _refuse_on_reactor(crd, ctx)  # 2 * (1 + 748)
        for _ in range(2):
            _refuse_on_reactor(large, ctx)
        schema["x-kubernetes-validations"][0]["rule"] += "rr"
        if refused:
            with pytest.raises(TimeExceeded):
                _refuse_on_reactor(crd, ctx)
        else:
            _refuse_on_reactor(crd, ctx)
        schema["x-kubernetes-validations"][0]["rule"] = "r" * 700
