"""Values against structural schemas: large ones give way in time, long enums are found at once and say the same."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from kapi.cel import TimeExceeded
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.schema.structural.formats import recognized
from kapi.schema.structural.listtypes import list_errors
from kapi.schema.structural.values import value_errors
from tests.growth.counting import stretches


def test_a_validation_that_takes_long_gives_way() -> None:
    """Alternatives within alternatives: the work doubles with each level."""
    bomb: Object = functools.reduce(lambda inner, _: {"anyOf": [inner, inner]}, range(10), {"required": ["x"]})
    schema = {"type": "array", "items": bomb}
    with pytest.raises(TimeExceeded):
        value_errors([{}] * 100, schema, seconds=1e-9)
    assert stretches(lambda: value_errors([{}], schema)).longest < 5000


def test_without_a_limit_a_validation_ends_with_its_errors() -> None:
    errors = value_errors([1] * 1000, {"type": "array", "items": {"type": "string"}})
    assert len(errors) == 1000


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("v7", True),
        ("v99", False),
        (1, True),
        (1.0, True),
        (2.5, True),
        (3, False),
        ({"b": 2, "a": 1}, True),
        ({"a": 1}, False),
        ([1, "x"], True),
        (None, False),  # null is equal to no value
        (True, False),
    ],
)
def test_a_long_enum_says_what_a_short_one_does(value: Any, good: bool) -> None:
    short = [1, 2.5, {"a": 1, "b": 2}, [1, "x"], None, "v7"]
    schema: Object = {"enum": short, "nullable": True}
    assert (value_errors(value, schema) == []) is good
    schema["enum"] = [*short, *(f"v{number}" for number in range(50))]
    assert (value_errors(value, schema) == []) is good


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("value", "item"),
    [
        (0x61, "a"),
        (0, "\0"),
        (0xD7FF, "\ud7ff"),
        (0xE000, "\ue000"),
        (0x10FFFF, "\U0010ffff"),
        *((number, "\ufffd") for number in (-1, 0xD800, 0xDFFF, 0x110000)),
        (2.9, 2),
        (-2.9, -2),
        (2.0**63, -(2**63)),
        (-(2.0**63), -(2**63)),
    ],
)
def test_a_number_is_what_go_converts_it_to_for_an_enum(value: Any, item: Any, many: bool) -> None:
    more = [f"v{number}" for number in range(50 if many else 1)]
    assert value_errors(value, {"enum": [item, *more]}) == []
    assert value_errors(value, {"enum": ["other", *more]}) != []


@pytest.mark.parametrize(
    ("value", "schema", "texts"),
    [
        (1, {"type": "number", "minimum": 1.5}, []),
        (0, {"type": "number", "minimum": 1.5}, ["x in body should be greater than or equal to 1"]),
        (1.2, {"type": "number", "minimum": 1.5}, ["x in body should be greater than or equal to 1.5"]),
        (2, {"type": "number", "maximum": 1.5}, ["x in body should be less than or equal to 1"]),
        (3, {"type": "number", "multipleOf": 0.5}, ["factor MultipleOf declared for x must be positive: 0"]),
        (3, {"type": "number", "multipleOf": 2.5}, ["x in body should be a multiple of 2"]),
        (
            1,
            {"type": "integer", "minimum": 1.5},
            [
                "Minimum boundary value must be of type integer (default format) in x",
                "x in body should be greater than or equal to 1.5",
            ],
        ),
    ],
)
def test_whole_numbers_are_compared_with_whole_bounds(value: Any, schema: Object, texts: list[str]) -> None:
    """As upstream does it, which cuts off the fraction of a bound that fits its type."""
    assert [
        error.detail for error in value_errors({"x": value}, {"type": "object", "properties": {"x": schema}})
    ] == texts


@pytest.mark.parametrize(
    ("value", "unique"),
    [
        ([1, 2, "1"], True),
        ([1, 1.0], False),
        ([1, True, None], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([{"a": 1}, {"a": True}, ["a"], [["a"]]], True),
    ],
)
def test_unique_items_are_told_apart_by_value_and_type(value: Any, unique: bool) -> None:
    assert (not value_errors(value, {"uniqueItems": True})) == unique


def test_an_error_that_two_alternatives_find_is_reported_once() -> None:
    part = {"required": ["b"]}
    errors = value_errors({}, {"allOf": [part, part]})
    assert [str(error) for error in errors] == [
        "b: Required value",
        '<nil>: Invalid value: "": "" must validate all the schemas (allOf). None validated',
    ]


@pytest.mark.parametrize(
    ("value", "factor", "good"),
    [(1e20, 5, False), (0.3, 0.1, True), (7.5, 2.5, True), (5, -5, False), (0.0, 5e-324, False)],
)
def test_multiples_are_what_a_float64_can_tell(value: float, factor: float, good: bool) -> None:
    assert (value_errors(value, {"type": "number", "multipleOf": factor}) == []) is good


def test_a_default_for_int_or_string_may_be_of_any_type() -> None:
    schema = {"x-kubernetes-int-or-string": True}
    assert value_errors(True, schema) != []
    assert value_errors(True, schema, either=False) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-list-type": "set"},
        {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        {"uniqueItems": True},
        {"items": {"enum": [f"v{number}" for number in range(20)]}},
    ],
    ids=["set", "map", "unique", "enum"],
)
def test_others_may_work_while_lists_are_judged(schema: Object) -> None:
    for value in ([{"k": str(number)} for number in range(500)], [{"k": ""}] * 500):

        def work(value: list[Any] = value) -> None:
            list_errors(Path("spec"), schema, value)
            value_errors(value, {"type": "array", **schema}, old=[*value])

        found = stretches(work)
        assert found.longest < 2000, found.where


@pytest.mark.parametrize(
    ("format", "right", "wrong"),
    [
        (
            "hostname",
            ["a.de", "ü.de", "a1-b.com", "x", "☃.com", "a.дом"],
            ["a.b", "a_b", "-a.de", "ü.d1", "a..de", "ü" * 32],
        ),
        ("ipv4", ["1.2.3.4", "01.002.3.4", "::ffff:1.2.3.4"], ["1.2.3", "::1", "1.2.3.256", "1.2.3.4/8", "1.2.3.4%a"]),
        ("ipv6", ["::1", "::ffff:1.2.3.4"], ["1.2.3.4", "::ffff:01.2.3.4", "fe80::1%eth0", ""]),
        (
            "cidr",
            ["1.2.3.0/24", "01.2.3.4/024", "::/0", "::ffff:01.2.3.4/96"],
            ["1.2.3.4", "1.2.3.0/33", "1.2.3.0/-1", "a/8"],
        ),
        (
            "email",
            ["a.b@c.d", '"a b"@c', '"B, A" <a@b>', "a@b (home)", "a@[::ffff:1.2.3.4]"],
            ["a", "a b@c", "a@b c", "\n a@b", "a@b..c", "A (", "a@[b]", "<a@b", "a@b, c@d"],
        ),
        ("ssn", ["111-22-3333", "111 22 3333"], ["111223333", "111-223333"]),
    ],
)
def test_formats_are_those_of_the_go_packages(format: str, right: list[str], wrong: list[str]) -> None:
    schema = {"type": "string", "format": format}
    assert [text for text in right if value_errors(text, schema)] == []
    assert [text for text in wrong if not value_errors(text, schema)] == []


@pytest.mark.parametrize(
    ("type_", "format_"), [("2001:DB8::1", "uri"), ("array", "ipv4"), ("object", "uuid"), ("string", "date")]
)
def test_a_default_has_the_format_whatever_the_type(type_: str, format_: str) -> None:
    """Upstream drops formats that are not known for a type before it checks values, but not before it checks defaults."""
    schema = {"type": type_, "format": format_}
    told = f"in body must be of type {format_}"
    assert [told in str(error) for error in value_errors("4", schema, either=False)] == [True]
    assert any(told in str(error) for error in value_errors("4", schema)) is (type_ == "string")


@pytest.mark.parametrize(
    ("value", "schema", "told"),
    [
        (5, {"type": "string", "format": "int64"}, "string"), (5, {"type": "string", "format": "int32"}, "int32"),
        (1.5, {"type": "string", "format": "float64"}, "string"), (1.5, {"type": "string", "format": "double"}, "double"),
        (5, {"type": "number", "format": "x"}, None), (2.0, {"type": "integer", "format": "x"}, None),
        (2.5, {"type": "boolean", "format": "x"}, "x"), (True, {"type": "boolean", "format": "x"}, None),
    ],
)  # fmt: skip
def test_the_format_of_a_default_is_told_unless_it_is_that_of_the_number(
    value: Any, schema: Object, told: str | None
) -> None:
    found = [str(error) for error in value_errors(value, schema, either=False) if "must be of type" in str(error)]
    assert [text.partition("must be of type ")[2].partition(":")[0] for text in found] == ([told] if told else [])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"a": "x", "b": 1}, {"a": "x", "b": 1.5}, True), ({"a": "x"}, {"a": 1}, True),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1.5}, False),
        ({"a": "x", "b": 1}, {"a": 1, "b": 1.5}, True), ({"a": 1}, {"a": 1}, False), ({"a": "x"}, {"a": "x"}, True),
        ({"b": True}, {"b": 1}, True), ({"b": 1, "a": "x"}, {"b": 1, "a": "x"}, True),
    ],
)  # fmt: skip
def test_an_old_value_of_a_wrong_type_is_reported(old: Object, new: Object, told: bool) -> None:
    schema = {"type": "object", "properties": {"a": INT, "b": NUM}}
    calls: list[None] = []
    assert value_errors(new, schema, None, old, mistyped=lambda: calls.append(None)) == []
    assert bool(calls) is told


def test_any_text_is_a_quantity() -> None:
    assert value_errors("no number", {"type": "string", "format": "quantity"}) == []
    assert recognized("quantity", "string")


INT, NUM, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
LIST: Object = {"type": "array"}
MAP: Object = {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "value", "texts"),
    [
        ({**TEXT, "minLength": 2}, "é", ['x: Invalid value: "é": x in body should be at least 2 chars long']),
        ({**TEXT, "minLength": 2, "maxLength": 1}, "ab", ["x: Too long: may not be more than 1 byte"]),
        ({**TEXT, "maxLength": 0, "pattern": "^b"}, "a", ["x: Too long: may not be more than 0 bytes"]),
        ({**TEXT, "pattern": "("}, "a", [
            'x: Invalid value: "a": x in body should match \'(, but pattern is invalid: error parsing regexp: missing '
            'closing ): `(`\'',
        ]),
        ({**TEXT, "pattern": "^a", "format": "ipv4"}, "b", [
            'x: Invalid value: "b": x in body should match \'^a\'',
            'x: Invalid value: "b": x in body must be of type ipv4: "b"',
        ]),
        ({**NUM, "minimum": 1, "exclusiveMinimum": True}, 1, ["x: Invalid value: 1: x in body should be greater than 1"]),
        ({**NUM, "minimum": 1}, 0.5, ["x: Invalid value: 0.5: x in body should be greater than or equal to 1"]),
        ({**NUM, "maximum": 1, "exclusiveMaximum": True}, 1, ["x: Invalid value: 1: x in body should be less than 1"]),
        ({**NUM, "maximum": 1}, 1.5, ["x: Invalid value: 1.5: x in body should be less than or equal to 1"]),
        ({**INT, "format": "int32"}, 2**31, [
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in x',
        ]),
        ({**INT, "format": "int32"}, -(2**31) - 1, [
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in x',
        ]),
        ({**INT, "format": "int64"}, 2**63, [
            '<nil>: Invalid value: "": Checked value must be of type integer with format int64 in x',
        ]),
        (INT, -(2**63) - 1, ['<nil>: Invalid value: "": Checked value must be of type integer (default format) in x']),
        (INT, 1.5, [
            'x: Invalid value: "number": x in body must be of type integer: "number"',
            '<nil>: Invalid value: "": Checked value must be of type integer (default format) in x',
        ]),
        ({**NUM, "format": "float"}, 3.5e+38, [
            '<nil>: Invalid value: "": Checked value must be of type number with format float in x',
        ]),
        ({**INT, "format": "int32", "maximum": 2**31}, 2, [
            '<nil>: Invalid value: "": Maximum boundary value must be of type integer with format int32 in x',
        ]),
        ({**INT, "format": "int32", "multipleOf": 2**31}, 2, [
            '<nil>: Invalid value: "": MultipleOf value must be of type integer with format int32 in x',
            "x: Invalid value: 2: x in body should be a multiple of 2.147483648e+09",
        ]),
        ({**INT, "multipleOf": 2}, 3, ["x: Invalid value: 3: x in body should be a multiple of 2"]),
        ({**INT, "multipleOf": 0}, 4, ["x: Invalid value: 0: factor MultipleOf declared for x must be positive: 0"]),
        ({**NUM, "multipleOf": 0.5}, 1.75, ["x: Invalid value: 1.75: x in body should be a multiple of 0.5"]),
        ({**LIST, "minItems": 2}, [1], ["x: Invalid value: 1: x in body should have at least 2 items"]),
        ({**LIST, "maxItems": 0}, [1], ["x: Too many: 1: must have at most 0 items"]),
        ({**LIST, "uniqueItems": True}, [1, 2, 1], ['x: Invalid value: "": x in body shouldn\'t contain duplicates']),
        ({**LIST, "items": TEXT}, ["a", 1, "b", 2], [
            'x[1]: Invalid value: "integer": x[1] in body must be of type string: "integer"',
            'x[3]: Invalid value: "integer": x[3] in body must be of type string: "integer"',
        ]),
        ({**MAP, "minProperties": 2}, {"a": 1}, ["x: Invalid value: 1: x in body should have at least 2 properties"]),
        ({**MAP, "maxProperties": 0}, {"a": 1}, ["x: Too many: 1: must have at most 0 items"]),
        ({**MAP, "properties": {"a": INT}, "additionalProperties": False}, {"a": 1, "b": 2, "c": 3}, [
            'x: Invalid value: "b": x.b in body is a forbidden property',
            'x: Invalid value: "c": x.c in body is a forbidden property',
        ]),
        ({**MAP, "properties": {"a": INT}, "additionalProperties": TEXT}, {"a": 1, "b": 2, "c": "x"}, [
            'x.b: Invalid value: "integer": x.b in body must be of type string: "integer"',
        ]),
        ({**MAP, "properties": {"a": {**MAP, "properties": {"b": INT}}}}, {"a": {"b": "x"}}, [
            'x.a.b: Invalid value: "string": x.a.b in body must be of type integer: "string"',
        ]),
        ({**MAP, "required": ["a", "b"]}, {"b": None}, ["x.a: Required value"]),
        (TEXT, None, ['x: Invalid value: "null": x in body must be of type string: "null"']),
        ({**TEXT, "nullable": True, "enum": ["a"]}, None, ['x: Unsupported value: null: supported values: "a"']),
        (TEXT, True, ['x: Invalid value: "boolean": x in body must be of type string: "boolean"']),
        (TEXT, 1, ['x: Invalid value: "integer": x in body must be of type string: "integer"']),
        (TEXT, 1.5, ['x: Invalid value: "number": x in body must be of type string: "number"']),
        (TEXT, [], ['x: Invalid value: "array": x in body must be of type string: "array"']),
        (TEXT, {}, ['x: Invalid value: "object": x in body must be of type string: "object"']),
        ({"type": "boolean"}, "x", ['x: Invalid value: "string": x in body must be of type boolean: "string"']),
        (LIST, {}, ['x: Invalid value: "object": x in body must be of type array: "object"']),
        (MAP, [], ['x: Invalid value: "array": x in body must be of type object: "array"']),
        (NUM, "x", ['x: Invalid value: "string": x in body must be of type number: "string"']),
        ({**NUM, "format": "double"}, "x", ['x: Invalid value: "string": x in body must be of type number: "string"']),
        ({"type": "boolean"}, 1, ['x: Invalid value: "integer": x in body must be of type boolean: "integer"']),
        ({"x-kubernetes-int-or-string": True}, 1.5, [
            'x: Invalid value: "number": x in body must be of type integer,string: "number"',
        ]),
        ({"allOf": [{"minimum": 2}, {"maximum": 0}]}, 1, [
            "x: Invalid value: 1: x in body should be greater than or equal to 2",
            "x: Invalid value: 1: x in body should be less than or equal to 0",
            '<nil>: Invalid value: "": "x" must validate all the schemas (allOf). None validated',
        ]),
        ({"allOf": [{"minimum": 2}, {"maximum": 1}]}, 1, [
            "x: Invalid value: 1: x in body should be greater than or equal to 2",
            '<nil>: Invalid value: "": "x" must validate all the schemas (allOf)',
        ]),
        ({"anyOf": [{"minimum": 2}, {"maximum": 0}]}, 1, [
            '<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)',
            "x: Invalid value: 1: x in body should be greater than or equal to 2",
        ]),
        ({"anyOf": [{"required": ["x"]}, {"properties": {"a": {"minimum": 2}}}]}, {"a": 1}, [
            '<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)',
            "x.a: Invalid value: 1: x.a in body should be greater than or equal to 2",
        ]),
        ({"anyOf": [{"properties": {"a": {"minimum": 2}}}, {"required": ["x"]}]}, {"a": 1}, [
            '<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)',
            "x.a: Invalid value: 1: x.a in body should be greater than or equal to 2",
        ]),
        ({"oneOf": [{"minimum": 2}, {"maximum": 0}]}, 1, [
            '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid',
            "x: Invalid value: 1: x in body should be greater than or equal to 2",
        ]),
        ({"oneOf": [{"minimum": 1}, {"maximum": 1}]}, 1, [
            '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ]),
        ({"oneOf": [{"required": ["x"]}, {"properties": {"a": {"minimum": 2}}}]}, {"a": 1}, [
            '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid',
            "x.a: Invalid value: 1: x.a in body should be greater than or equal to 2",
        ]),
        ({"oneOf": [{"properties": {"a": {"minimum": 2}}}, {"required": ["x"]}]}, {"a": 1}, [
            '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid',
            "x.a: Invalid value: 1: x.a in body should be greater than or equal to 2",
        ]),
        ({"oneOf": [{"minimum": 1}, {"maximum": 0}, {"minimum": 0}]}, 1, [
            '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ]),
        ({"not": {"minimum": 1}}, 1, ['<nil>: Invalid value: "": "x" must not validate the schema (not)']),
        ({"not": {}}, 1, ['<nil>: Invalid value: "": "x" must not validate the schema (not)']),
    ],
)  # fmt: skip
def test_what_each_keyword_refuses(schema: Object, value: Any, texts: list[str]) -> None:
    errors = value_errors({"x": value}, {"type": "object", "properties": {"x": schema}})
    assert [str(error) for error in errors] == texts


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({**TEXT, "minLength": 1}, "é"), ({**TEXT, "maxLength": 1}, "é"), ({**TEXT, "format": "unheard"}, "x"),
        ({**INT, "format": "date"}, 1), ({**TEXT, "format": "int32"}, "x"),
        ({**NUM, "minimum": 1, "exclusiveMinimum": True}, 1.5), ({**NUM, "minimum": 1}, 1),
        ({**NUM, "maximum": 1, "exclusiveMaximum": True}, 0.5), ({**NUM, "maximum": 1}, 1),
        ({**INT, "format": "int32"}, 2**31 - 1), ({**INT, "format": "int32"}, -(2**31)),
        ({**INT, "format": "int64"}, 2**63 - 1), (INT, -(2**63)), (INT, 2.0),
        ({**NUM, "format": "float"}, 3.4028235677973366e+38), ({**NUM, "format": "double"}, 3.5e+38),
        ({**INT, "multipleOf": 2}, 4), ({**LIST, "minItems": 1}, [1]), ({**LIST, "maxItems": 1}, [1]),
        ({**MAP, "minProperties": 1}, {"a": 1}), ({**MAP, "maxProperties": 1}, {"a": 1}),
        ({**MAP, "additionalProperties": True}, {"a": 1}), ({**TEXT, "nullable": True}, None), ({}, None), (NUM, 1),
        ({**NUM, "format": "float"}, 1), ({"x-kubernetes-int-or-string": True}, "a"),
        ({"x-kubernetes-int-or-string": True}, 3), ({"allOf": [{"minimum": 1}, {"maximum": 1}]}, 1),
        ({"anyOf": [{"minimum": 2}, {"maximum": 1}]}, 1), ({"oneOf": [{"minimum": 1}, {"maximum": 0}]}, 1),
        ({"not": {"minimum": 1}}, 0),
    ],
)  # fmt: skip
def test_what_each_keyword_accepts(schema: Object, value: Any) -> None:
    assert value_errors({"x": value}, {"type": "object", "properties": {"x": schema}}) == []
