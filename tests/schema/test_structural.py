"""Structural schemas: what is structural, pruning, defaults, values, rules, ratcheting."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.field import Path
from kapi.schema.structural.celtypes import declare
from kapi.schema.structural.compiled_rules import compile_rules
from kapi.schema.structural.field_path import FieldPathError, field_path
from kapi.schema.structural.listtypes import list_errors
from kapi.schema.structural.pruning import default, drop_nulls, prune
from kapi.schema.structural.rules import Budget, validator
from kapi.schema.structural.structure import structural_errors
from kapi.schema.structural.values import value_errors

Schema = dict[str, Any]


def _texts(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def test_types_belong_outside_of_logic() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}]}, "b": {"type": "array"}},
        "allOf": [{"properties": {"c": {"minimum": 1}}}],
    }
    assert _texts(structural_errors(Path("s"), schema)) == [
        "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        "s.properties[a].type: Required value: must not be empty for specified object fields",
        "s.properties[b].items: Required value: must be specified",
        "s.properties[c]: Required value: because it is defined in s.allOf[0].properties[c]",
    ]


@pytest.mark.parametrize("first", [True, False])
def test_an_integer_or_string_has_its_types_in_the_first_of_all(first: bool) -> None:
    types, other = {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}
    schema = {"x-kubernetes-int-or-string": True, "allOf": [types, other] if first else [other, types]}
    texts = _texts(structural_errors(Path("s"), {"type": "object", "properties": {"a": schema}}))
    assert bool(texts) == (not first), texts


def test_a_text_of_an_object_may_be_empty_for_the_estimated_cost() -> None:
    """An empty text to replace is found before each character: what is made of it is longest then."""
    text: Schema = {"type": "string", "maxLength": 10}

    def cost(old: str) -> int:
        rule = {"rule": f"self.a.replace({old}, 'xyz').contains('y')"}
        schema = {"type": "object", "properties": {"a": text, "b": text}, "x-kubernetes-validations": [rule]}
        declared = declare(schema)
        assert declared is not None
        (found,) = compile_rules(schema, declared)
        assert found.program is not None, found.error
        return found.program.cost_estimate.max

    assert cost("self.b") > cost("''") > cost("'c'")


def test_only_the_first_of_all_may_have_the_types_of_an_integer_or_string() -> None:
    types = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    twice = {"x-kubernetes-int-or-string": True, "allOf": [types, types]}
    assert _texts(structural_errors(Path("s"), {"type": "object", "properties": {"a": twice}})) == [
        f"s.properties[a].allOf[1].anyOf[{index}].type: Forbidden: must be empty to be structural" for index in (0, 1)
    ]
    other = {"type": "string", "allOf": [{"anyOf": [{"type": "string"}]}]}
    assert _texts(structural_errors(Path("s"), {"type": "object", "properties": {"a": other}})) == [
        "s.properties[a].allOf[0].anyOf[0].type: Forbidden: must be empty to be structural"
    ]


def test_pruning_names_what_goes_and_spares_what_is_preserved() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}}},
            },
            "free": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"x": {"type": "object"}},
            },
        },
    }
    obj = {
        "apiVersion": "v1", "kind": "K", "metadata": {"any": 1},
        "spec": {"l": [{"a": 1, "b": 2}], "z": 1}, "free": {"y": {"q": 1}, "x": {"gone": 1}},
    }  # fmt: skip
    assert prune(obj, schema) == ["free.x.gone", "spec.l[0].b", "spec.z"]
    assert obj["spec"] == {"l": [{"a": 1}]} and obj["free"] == {"y": {"q": 1}, "x": {}}


def test_defaults_fill_what_is_there_and_nulls_that_mean_nothing_go() -> None:
    schema: Schema = {
        "properties": {
            "a": {"default": 1}, "b": {"default": 2, "nullable": True}, "c": {"type": "string"},
            "o": {"default": {}, "properties": {"x": {"default": "y"}}}, "m": {"additionalProperties": {"properties": {"z": {"default": 3}}}},  # noqa: E501
        }
    }  # fmt: skip
    obj = {"a": None, "b": None, "c": None, "m": {"k": {}}}
    drop_nulls(obj, schema)
    default(obj, schema)
    assert obj == {"a": 1, "b": None, "m": {"k": {"z": 3}}, "o": {"x": "y"}}


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer"}, "x", 'f: Invalid value: "string": f in body must be of type integer: "string"'),
        ({"type": "string", "maxLength": 2}, "abc", "f: Too long: may not be more than 2 bytes"),
        ({"type": "string", "pattern": "^a+$"}, "b", "f: Invalid value: \"b\": f in body should match '^a+$'"),
        (
            {"enum": [{"b": "<", "a": 1}]},
            {"d": 1, "c": 2},
            'f: Unsupported value: {"c":2,"d":1}: supported values: "{\\"a\\":1,\\"b\\":\\"\\\\u003c\\"}"',
        ),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'f: Unsupported value: "c": supported values: "a", "b"'),
        ({"type": "number", "maximum": 1.5}, 2, "f: Invalid value: 2: f in body should be less than or equal to 1"),
        ({"type": "integer", "multipleOf": 3}, 4, "f: Invalid value: 4: f in body should be a multiple of 3"),
        ({"type": "array", "maxItems": 1}, [1, 2], "f: Too many: 2: must have at most 1 item"),
        ({"type": "object", "required": ["x"]}, {}, "f.x: Required value"),
        ({"type": "string", "format": "ipv4"}, "::1", 'f: Invalid value: "::1": f in body must be of type ipv4: "::1"'),
        ({"x-kubernetes-int-or-string": True}, True, 'f: Invalid value: "boolean": f in body must be of type integer,string: "boolean"'),  # noqa: E501
        ({"type": "integer", "not": {"minimum": 1}}, 3, '<nil>: Invalid value: "": "f" must not validate the schema (not)'),
    ],
)  # fmt: skip
def test_a_value_is_held_against_its_schema(schema: Schema, value: Any, text: str) -> None:
    assert _texts(value_errors({"f": value}, {"type": "object", "properties": {"f": schema}})) == [text]


@pytest.mark.parametrize("more", [[], [f"v{number}" for number in range(20)]])
@pytest.mark.parametrize(
    ("allowed", "good", "bad"),
    [
        ([1, 2], [1, 1.0, 1.5, 2.9], [3, 0.5, "1", True, None]),
        ([-1], [-1, -1.5], [-2.0]),
        ([1.5, "a"], [1.5, 97, "a"], [1, 98, 97.0, "b"]),
        ([2.0], [2, 2.0], [2.5]),
    ],
)
def test_a_number_is_converted_to_the_type_of_an_enums_value(
    allowed: list[Any], good: list[Any], bad: list[Any], more: list[Any]
) -> None:
    schema: Schema = {"enum": [*allowed, *more]}
    assert [value for value in good if value_errors(value, schema)] == []
    assert [value for value in bad if not value_errors(value, schema)] == []


def test_what_was_wrong_before_and_did_not_change_is_let_through() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"type": "string"}},
    }
    assert value_errors({"a": "long", "b": "x"}, schema, None, {"a": "long", "b": "y"}) == []
    assert len(value_errors({"a": "longer"}, schema, None, {"a": "long"})) == 1


def test_sets_and_keyed_lists_have_no_duplicates() -> None:
    schema: Schema = {
        "properties": {
            "s": {"type": "array", "x-kubernetes-list-type": "set"},
            "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        }
    }
    assert _texts(list_errors(Path(""), schema, {"s": [{"b": 1, "a": 2}, {"a": 2, "b": 1}]})) == [
        's[1]: Duplicate value: {"a":2,"b":1}'
    ]
    obj = {"s": ["a", "b", "a", "a"], "m": [{"k": 1}, {"k": 1, "v": 2}]}
    assert _texts(list_errors(Path(""), schema, obj)) == [
        's[2]: Duplicate value: "a"',
        'm[1]: Duplicate value: {"k":1}',
    ]


RULES: Schema = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "min": {"type": "integer"}, "max": {"type": "integer"},
                "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]},
                "l": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {
                        "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "messageExpression": "self.k + ' fell'"}],
                    },
                },
            },
            "x-kubernetes-validations": [
                {"rule": "self.min <= self.max", "reason": "FieldValueForbidden", "fieldPath": ".min", "message": "too large"}
            ],
        }
    },
}  # fmt: skip


def test_rules_and_their_messages() -> None:
    rules = validator(RULES)
    assert rules is not None
    old = {"spec": {"min": 1, "max": 2, "fixed": "a", "l": [{"k": "x", "v": 5}]}}
    assert rules.validate(Path(""), old, None, Budget()) == []
    new = {"spec": {"min": 3, "max": 2, "fixed": "b", "l": [{"k": "new", "v": 1}, {"k": "x", "v": 4}]}}
    assert sorted(_texts(rules.validate(Path(""), new, old, Budget()))) == [
        "spec.fixed: Invalid value: \"b\": fixed", "spec.l[1]: Invalid value: x fell", "spec.min: Forbidden: too large",
    ]  # fmt: skip


def test_unchanged_parts_that_fail_are_warned_of() -> None:
    rules = validator(RULES)
    assert rules is not None
    obj = {"spec": {"min": 3, "max": 2}}
    warnings: list[str] = []
    assert rules.validate(Path(""), obj, obj, Budget(), warnings.append) == []
    assert warnings == ["spec.min: Forbidden: too large"]


def test_the_type_of_an_object_is_never_unchanged() -> None:
    """Old and new objects are converted to one version before they are compared."""
    version = {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'v1'"}]}
    below = {"type": "object", "properties": {"apiVersion": version}}
    rules = validator({"type": "object", "properties": {"apiVersion": version, "kind": version, "below": below}})
    assert rules is not None
    obj = {"apiVersion": "v2", "kind": "v3", "below": {"apiVersion": "v4"}}
    warnings: list[str] = []
    assert _texts(rules.validate(Path(""), obj, obj, Budget(), warnings.append)) == [
        "apiVersion: Invalid value: \"v2\": failed rule: self == 'v1'",
        "kind: Invalid value: \"v3\": failed rule: self == 'v1'",
    ]
    assert warnings == ["below.apiVersion: Invalid value: \"v4\": failed rule: self == 'v1'"]


def test_rules_below_a_node_of_another_type_cannot_be_compiled() -> None:
    """Such a schema is accepted; objects that were stored before, under another one, are told."""
    rule = {"rule": "self.n < 10"}
    item = {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    rules = validator({"type": "object", "properties": {"x": {"type": "object", "items": item}}})
    assert rules is not None
    assert _texts(rules.validate(Path(""), {"x": [{"n": 1}]}, None, Budget())) == [
        'x[0]: Invalid value: "object": rule compiler initialization error: '
        "failed to convert to declType for CEL validation rules"
    ]


def test_field_paths() -> None:
    schema: Schema = {
        "properties": {
            "a": {"properties": {"b.c": {"type": "string"}, "b's": {"type": "string"}}},
            "m": {"additionalProperties": {"type": "string"}},
        }
    }
    assert str(field_path(".a['b.c']", schema)[0]) == "a.b.c"
    assert str(field_path(".m['k']", schema)[0]) == "m[k]"
    assert str(field_path(".a.b's", schema)[0]) == str(field_path(".a['b\\'s']", schema)[0]) == "a.b's"
    with pytest.raises(FieldPathError, match="does not refer to a valid field"):
        field_path(".a.z", schema)
