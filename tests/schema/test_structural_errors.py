"""What a structural schema may not have, and what is wrong with the lists and embedded objects of a value."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.schema.structural.celtypes import escape, unescape
from kapi.schema.structural.coercion import coerce
from kapi.schema.structural.field_path import FieldPathError, field_path
from kapi.schema.structural.listtypes import list_errors
from kapi.schema.structural.structure import structural_errors

OBJECT, TEXT, LIST = {"type": "object"}, {"type": "string"}, {"type": "array"}
PRESERVED, EMBEDDED, EITHER = (
    {f"x-kubernetes-{name}": True} for name in ("preserve-unknown-fields", "embedded-resource", "int-or-string")
)


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ({**OBJECT, "properties": {"a": LIST}}, ["s.properties[a].items: Required value: must be specified"]),
        ({**OBJECT, "properties": {"a": {**LIST, "items": {}}}}, [
            "s.properties[a].items.type: Required value: must not be empty for specified array items",
        ]),
        ({**OBJECT, "properties": {"a": {}}}, [
            "s.properties[a].type: Required value: must not be empty for specified object fields",
        ]),
        ({}, ["s.type: Required value: must not be empty at the root"]),
        (TEXT, ['s.type: Invalid value: "string": must be object at the root']),
        ({**LIST, "items": TEXT}, ['s.type: Invalid value: "array": must be object at the root']),
        (PRESERVED, []),
        ({**OBJECT, "additionalProperties": TEXT}, ["s.additionalProperties: Forbidden: must not be used at the root"]),
        ({**OBJECT, "additionalProperties": False}, ["s.additionalProperties: Forbidden: must not be used at the root"]),
        ({**OBJECT, "properties": {"a": {**OBJECT, "additionalProperties": {}}}}, [
            "s.properties[a].additionalProperties.type: Required value: must not be empty for specified object fields",
        ]),
        ({**OBJECT, "properties": {"a": {**EITHER, **PRESERVED}}}, [
            "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
            "x-kubernetes-int-or-string is true",
        ]),
        ({**OBJECT, "properties": {"a": {**EITHER, **EMBEDDED}}}, [
            "s.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
            "s.properties[a].type: Required value: must be object if x-kubernetes-embedded-resource is true",
            "s.properties[a].x-kubernetes-embedded-resource: Invalid value: true: must be false if "
            "x-kubernetes-int-or-string is true",
        ]),
        ({**OBJECT, "properties": {"a": EITHER}}, []),
        ({**OBJECT, "properties": {"a": {**EMBEDDED, **PRESERVED}}}, [
            "s.properties[a].type: Required value: must be object if x-kubernetes-embedded-resource is true",
        ]),
        ({**OBJECT, "properties": {"a": {**TEXT, **EMBEDDED, **PRESERVED}}}, [
            's.properties[a].type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true',
        ]),
        ({**OBJECT, "properties": {"a": {**OBJECT, **EMBEDDED}}}, [
            "s.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
        ]),
        ({**OBJECT, "properties": {"a": {**OBJECT, **EMBEDDED, **PRESERVED, "additionalProperties": TEXT}}}, [
            "s.properties[a].additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set",
        ]),
        ({**OBJECT, "properties": {"kind": {"type": "integer"}, "apiVersion": OBJECT, "metadata": TEXT}}, [
            's.properties[apiVersion].type: Invalid value: "object": must be string',
            's.properties[kind].type: Invalid value: "integer": must be string',
            's.properties[metadata].type: Invalid value: "string": must be object',
        ]),
        ({**OBJECT, "properties": {"kind": PRESERVED}}, ['s.properties[kind].type: Invalid value: "": must be string']),
        ({**OBJECT, "properties": {"a": {**OBJECT, "properties": {"kind": {"type": "integer"}, "metadata": TEXT}}}}, []),
        ({**OBJECT, "properties": {"a": {**OBJECT, **EMBEDDED, "properties": {"kind": {"type": "integer"},
         "metadata": TEXT}}}}, [
            's.properties[a].properties[kind].type: Invalid value: "integer": must be string',
            's.properties[a].properties[metadata].type: Invalid value: "string": must be object',
        ]),
        ({**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"name": TEXT, "generateName": TEXT}}}}, []),
        ({**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"labels": OBJECT}}}}, [
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified",
        ]),
        ({**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"name": TEXT, "labels": OBJECT}}}}, [
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified",
        ]),
        ({**OBJECT, "properties": {"metadata": {**OBJECT, "description": "x"}}}, [
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified",
        ]),
        ({**OBJECT, "properties": {"metadata": {**OBJECT, "description": "", "default": {}}}}, []),
        ({**OBJECT, "properties": {"a": {**TEXT, "pattern": "("}}}, [
            's.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error '
            'parsing regexp: missing closing ): `(`',
        ]),
        ({**OBJECT, "properties": {"a": {**TEXT, "allOf": [{"pattern": "("}]}}}, [
            's.properties[a].allOf[0].pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: '
            'error parsing regexp: missing closing ): `(`',
        ]),
        ({**OBJECT, "properties": {"a": TEXT}, "not": {"properties": {"b": {}}}}, [
            "s.properties[b]: Required value: because it is defined in s.not.properties[b]",
        ]),
        ({**OBJECT, "properties": {"a": TEXT}, "anyOf": [{"properties": {"b": {}}},
         {"properties": {"a": {"minLength": 1}}}]}, [
            "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
        ]),
        ({**OBJECT, "properties": {"a": {**LIST, "items": {**OBJECT, "properties": {"b": TEXT}}}},
         "oneOf": [{"properties": {"a": {"items": {"properties": {"b": {"minLength": 1}, "c": {}}}}}}]}, [
            "s.properties[a].items.properties[c]: Required value: because it is defined in "
            "s.oneOf[0].properties[a].items.properties[c]",
        ]),
        ({**OBJECT, "properties": {"a": TEXT}, "allOf": [{"properties": {"a": {"items": {"minLength": 1}}}}]}, [
            "s.properties[a].items: Required value: because it is defined in s.allOf[0].properties[a].items",
        ]),
        ({**OBJECT, "properties": {"a": TEXT},
         "allOf": [{"anyOf": [{"not": {"properties": {"a": {"items": {}}}}}]}]}, [
            "s.properties[a].items: Required value: because it is defined in s.allOf[0].anyOf[0].not.properties[a].items",
        ]),
        ({**OBJECT, "properties": {"metadata": OBJECT}, "allOf": [{"properties": {"metadata": {}}}]}, [
            "s.allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
        ]),
        ({**OBJECT, "properties": {"a": TEXT}, "allOf": [{"items": {**TEXT, "title": "x"}}]}, [
            "s.allOf[0].items.title: Forbidden: must be empty to be structural",
            "s.allOf[0].items.type: Forbidden: must be empty to be structural",
            "s.items: Required value: because it is defined in s.allOf[0].items",
        ]),
        ({**OBJECT, "allOf": [{**OBJECT, "additionalProperties": {}, "default": {}, "title": "t", "description": "d",
         "nullable": True, **PRESERVED, **EMBEDDED, **EITHER, "x-kubernetes-list-map-keys": ["a"],
         "x-kubernetes-list-type": "map", "x-kubernetes-map-type": "atomic", "x-kubernetes-validations": [{}]}]}, [
            "s.allOf[0].additionalProperties: Forbidden: must be undefined to be structural",
            "s.allOf[0].default: Forbidden: must be undefined to be structural",
            "s.allOf[0].description: Forbidden: must be empty to be structural",
            "s.allOf[0].nullable: Forbidden: must be false to be structural",
            "s.allOf[0].title: Forbidden: must be empty to be structural",
            "s.allOf[0].type: Forbidden: must be empty to be structural",
            "s.allOf[0].x-kubernetes-embedded-resource: Forbidden: must be false to be structural",
            "s.allOf[0].x-kubernetes-int-or-string: Forbidden: must be false to be structural",
            "s.allOf[0].x-kubernetes-list-map-keys: Forbidden: must be empty to be structural",
            "s.allOf[0].x-kubernetes-list-type: Forbidden: must be undefined to be structural",
            "s.allOf[0].x-kubernetes-map-type: Forbidden: must be undefined to be structural",
            "s.allOf[0].x-kubernetes-preserve-unknown-fields: Forbidden: must be false to be structural",
            "s.allOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural",
        ]),
        ({**OBJECT, "anyOf": [{"type": "", "additionalProperties": False, "title": "", "description": "",
         "nullable": False, "x-kubernetes-preserve-unknown-fields": False, "x-kubernetes-embedded-resource": False,
         "x-kubernetes-int-or-string": False, "x-kubernetes-list-map-keys": [], "x-kubernetes-validations": []}]}, [
        ]),
        ({**OBJECT, "properties": {"a": {**EITHER, "anyOf": [{"type": "integer"}, TEXT]}}}, []),
        ({**OBJECT, "properties": {"a": {**EITHER, "anyOf": [TEXT, {"type": "integer"}]}}}, [
            "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
            "s.properties[a].anyOf[1].type: Forbidden: must be empty to be structural",
        ]),
        ({**OBJECT, "properties": {"a": {**EITHER, "oneOf": [{"type": "integer"}, TEXT]}}}, [
            "s.properties[a].oneOf[0].type: Forbidden: must be empty to be structural",
            "s.properties[a].oneOf[1].type: Forbidden: must be empty to be structural",
        ]),
        ({**OBJECT, "additionalProperties": LIST}, [
            "s.additionalProperties.items: Required value: must be specified",
            "s.additionalProperties: Forbidden: must not be used at the root",
        ]),
    ],
)  # fmt: skip
def test_what_a_schema_may_not_have(schema: Object, texts: list[str]) -> None:
    assert [str(error) for error in structural_errors(Path("s"), schema)] == texts


@pytest.mark.parametrize(
    ("schema", "value", "texts"),
    [
        ({"additionalProperties": {**LIST, "x-kubernetes-list-type": "set"}}, {"x": [1, 1], "y": [1]}, [
            "p[x][1]: Duplicate value: 1",
        ]),
        ({**LIST, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "b"]}, [{"k": 1, "b": 2}, 1,
         {"k": 1, "b": 2}], [
            "p[1]: Invalid value: 1: must be an object for an array of list-type map",
        ]),
        ({**LIST, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "b"]}, [None, {}, None], [
            "p[1]: Duplicate value: {}",
        ]),
        ({**LIST, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "b"]}, [{"k": 1, "b": 2},
         {"b": 2, "k": 1, "c": 3}, {"k": 1}], [
            'p[1]: Duplicate value: {"b":2,"k":1}',
        ]),
        ({**LIST, "x-kubernetes-list-type": "set"}, [1, True, 1.0, "1", 1], ["p[4]: Duplicate value: 1"]),
        ({**LIST, "items": {**LIST, "x-kubernetes-list-type": "set"}}, [[1], [1, 1], "x"], ["p[1][1]: Duplicate value: 1"]),
        ({**LIST, "x-kubernetes-list-type": "atomic"}, [1, 1], []),
        (None, [1, 1], []),
        ({}, 5, []),
        ({"properties": {"a": {"additionalProperties": {**LIST, "x-kubernetes-list-type": "set"}}}}, {"a": {"b": [2,
         2]}}, [
            "p.a[b][1]: Duplicate value: 2",
        ]),
    ],
)  # fmt: skip
def test_what_a_list_has_twice(schema: Object | None, value: Any, texts: list[str]) -> None:
    assert [str(error) for error in list_errors(Path("p"), schema, value)] == texts


@pytest.mark.parametrize(
    ("schema", "value", "kept", "texts"),
    [
        ({**OBJECT, **EMBEDDED}, {"kind": 1, "apiVersion": "v1"}, {"apiVersion": "v1"}, [
            "p.kind: Invalid value: 1: must be a string",
        ]),
        ({**OBJECT, **EMBEDDED}, {"apiVersion": {"b": 1, "a": 2}}, {}, [
            'p.apiVersion: Invalid value: {"a":2,"b":1}: must be a string',
        ]),
        ({**OBJECT, **EMBEDDED}, {"metadata": {"name": 1, "labels": {"a": "b"}}},
         {"metadata": {"labels": {"a": "b"}}}, [
            'p.metadata: Invalid value: {"labels":{"a":"b"},"name":1}: json: cannot unmarshal number into Go struct '
            'field ObjectMeta.name of type string',
        ]),
        ({**OBJECT, **EMBEDDED}, {"metadata": {"zzz": 1, "name": "x", "creationTimestamp": None}},
         {"metadata": {"name": "x"}}, [
            "p.metadata.zzz",
        ]),
        ({**OBJECT, **EMBEDDED}, {"metadata": []}, {"metadata": []}, [
            "p.metadata: Invalid value: []: json: cannot unmarshal array into Go value of type v1.ObjectMeta",
        ]),
        ({**OBJECT, **EMBEDDED}, {"metadata": None}, {"metadata": {}}, []),
        ({**OBJECT, **EMBEDDED}, {"metadata": {"creationTimestamp": "2020-01-01T01:00:00+01:00"}},
         {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}, []),
        ({**OBJECT, **EMBEDDED}, {"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}}, {"metadata": {}}, []),
        ({"properties": {"x": {**OBJECT, **EMBEDDED}}, "additionalProperties": {**OBJECT, **EMBEDDED}},
         {"x": {"kind": 1}, "y": {"kind": 2}}, {"x": {}, "y": {}}, [
            "p.x.kind: Invalid value: 1: must be a string",
        ]),
        ({"items": {**OBJECT, **EMBEDDED}}, [{"kind": "a"}, {"kind": 3}], [{"kind": "a"}, {}], [
            "p[1].kind: Invalid value: 3: must be a string",
        ]),
        ({}, {"kind": 1}, {"kind": 1}, []),
        ({**OBJECT, **EMBEDDED, "properties": {"a": {**OBJECT, **EMBEDDED}}}, {"a": {"kind": 1}}, {"a": {}}, [
            "p.a.kind: Invalid value: 1: must be a string",
        ]),
        (OBJECT, {"kind": 1, "metadata": 1}, {"kind": 1, "metadata": 1}, []),
        ({"additionalProperties": {**OBJECT, **EMBEDDED}}, {"y": {"kind": 2}}, {"y": {}}, [
            "p[y].kind: Invalid value: 2: must be a string",
        ]),
        ({**OBJECT, **EMBEDDED}, {"other": 1, "spec": {"kind": 1}}, {"other": 1, "spec": {"kind": 1}}, []),
    ],
)  # fmt: skip
def test_what_an_embedded_object_may_not_have(schema: Object, value: Any, kept: Any, texts: list[str]) -> None:
    """It is an error, or is dropped; unknown fields of metadata are told by their paths."""
    unknown: list[str] = []
    error = coerce(Path("p"), copy.deepcopy(value), schema, drop=False, unknown=unknown)
    assert (unknown if error is None else [str(error)]) == texts
    assert coerce(Path("p"), value, schema, drop=True) is None
    assert value == kept


PATHS: Object = {
    "properties": {
        "a": {"properties": {"b.c": TEXT, "b's": {}, "\a\b\f\n\r\t\v\\z": {}}},
        "m": {"additionalProperties": {"properties": {"x": {}}}},
        "n": {"additionalProperties": True},
        "s": TEXT,
    }
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('a', '! expected [ or . but got: a'),
        ('.', '! unexpected end of JSON path'),
        ('.a.', '! unexpected end of JSON path'),
        ('.a[', '! unexpected end of JSON path'),
        ('.a[0]', '! expected single quoted string but got 0'),
        (".a['b.c'", '! unexpected end of JSON path'),
        (".a['b.c'x", '! expected ] but got x'),
        (".a['b.c'.x", '! expected ] but got .'),
        (".a['\\z\\q']", '! invalid string literal: invalid escape char \\q'),
        (".a['b", "! expected single quoted string but got 'b"),
        (".a[']", "! expected single quoted string but got ']"),
        (".a['']", "! does not refer to a valid field"),
        (".n['']", "n[]"),
        (".a['\\a\\b\\f\\n\\r\\t\\v\\\\z']", 'a.\x07\x08\x0c\n\r\t\x0b\\z'),
        (".a['b\\\\']", "! expected single quoted string but got 'b\\\\']"),
        ('.s.x', '! does not refer to a valid field'),
        (".s['x']", '! does not refer to a valid field'),
        ('.m.k.x', 'm[k].x'),
        (".m['k'].x", 'm[k].x'),
        ('.m.k.y', '! does not refer to a valid field'),
        ('.n.k', 'n[k]'),
        ('', ''),
        (".a.b's", "a.b's"),
        ('.a]', '! expected [ or . but got: ]'),
        (".a['b\\'s']", "a.b's"),
        (".a['b.c']", 'a.b.c'),
    ],
)  # fmt: skip
def test_field_paths_and_what_is_wrong_with_them(text: str, wanted: str) -> None:
    try:
        found = str(field_path(text, PATHS)[0])
    except FieldPathError as error:
        found = f"! {error}"
    assert found == wanted


def test_a_path_without_arrays() -> None:
    assert str(field_path(".a", PATHS, arrays=False)[0]) == "a"
    with pytest.raises(FieldPathError, match=r"\Aarray notation is not allowed\Z"):
        field_path(".a['b.c']", PATHS, arrays=False)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a_b1", "a_b1"), ("a__b", "a__underscores__b"), ("a____b", "a__underscores____underscores__b"), ("a.b", "a__dot__b"),
        ("-a/b", "__dash__a__slash__b"), ("in", "__in__"), ("while", "__while__"), ("self", "self"), ("1a", None), ("", None),
        ("é", None), ("a b", None),
    ],
)  # fmt: skip
def test_names_in_expressions(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped
    if escaped is not None:
        assert unescape(escaped) == name


@pytest.mark.parametrize(
    ("name", "property_"),
    [("a__b", "a__b"), ("__x__", None), ("x__in__", None), ("__underscores____dot__", "__.")],
)
def test_names_with_escapes_that_there_are_not(name: str, property_: str | None) -> None:
    assert unescape(name) == property_
