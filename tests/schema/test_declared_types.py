"""The types and sizes in CEL that schemas declare."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.schema.structural.celtypes import declare

LONGEST = 3 * 1024 * 1024 - 2
BOOLEAN = {"type": "boolean"}


def text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def struct(required: list[str], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"ab": {**BOOLEAN, **more}}, "required": required}


@pytest.mark.parametrize(
    ("schema", "type_", "least", "most"),
    [
        ({"type": "number"}, "double", 1, 0),
        ({"type": "integer"}, "int", 1, 0),
        (BOOLEAN, "bool", 4, 0),
        (text(), "string", 2, LONGEST),
        (text(maxLength=3), "string", 2, 12),
        (text(maxLength=-1), "string", 2, 0),
        (text(enum=["a", "éé", None]), "string", 2, 4),
        (text(enum=[None]), "string", 2, 0),
        (text(format="byte"), "bytes", 2, LONGEST),
        (text(format="byte", maxLength=3), "bytes", 2, 3),
        (text(format="byte", maxLength=-1), "bytes", 2, 0),
        (text(format="duration"), "google.protobuf.Duration", 3, 32),
        (text(format="date"), "google.protobuf.Timestamp", 12, 12),
        (text(format="date-time"), "google.protobuf.Timestamp", 21, 32),
        ({"x-kubernetes-int-or-string": True}, "dyn", 1, LONGEST),
        ({"x-kubernetes-int-or-string": True, "maxLength": 3}, "dyn", 1, 12),
        ({"x-kubernetes-int-or-string": True, "maxLength": -1}, "dyn", 1, 0),
        ({"type": "array", "items": BOOLEAN}, "list(bool)", 2, LONGEST // 5),
        ({"type": "array", "items": BOOLEAN, "maxItems": 3}, "list(bool)", 2, 3),
        ({"type": "array", "items": BOOLEAN, "maxItems": -1}, "list(bool)", 2, 0),
        ({"type": "object", "additionalProperties": BOOLEAN}, "map(string, bool)", 2, LONGEST // 10),
        ({"type": "object", "additionalProperties": BOOLEAN, "maxProperties": 3}, "map(string, bool)", 2, 3),
        ({"type": "object", "additionalProperties": BOOLEAN, "maxProperties": -1}, "map(string, bool)", 2, 0),
        (struct(["ab"]), "", 2 + 2 + 4 + 4, 0),
        (struct(["ab"], default=True), "", 2, 0),
        (struct(["other"]), "", 2, 0),
    ],
)
def test_types_and_sizes(schema: dict[str, Any], type_: str, least: int, most: int) -> None:
    found = declare(schema)
    assert found is not None
    assert type_ in str(found.type)
    assert (found.min_serialized_size, found.max_elements) == (least, most)


def test_a_field_without_a_type_is_left_out() -> None:
    found = declare(
        {"type": "object", "properties": {"a": {}, "ü": BOOLEAN, "b": BOOLEAN, "if": BOOLEAN}, "required": ["ü", "a"]}
    )
    assert found is not None
    assert sorted(found.fields) == ["__if__", "b", "if"]
    assert found.min_serialized_size == 2 + 2 + 4 + 4  # of the field whose name is none of CEL's


@pytest.mark.parametrize(
    "schema",
    [{}, {"type": "other"}, {"type": "array"}, {"type": "array", "items": [{}]}, {"type": "array", "items": {}},
     {"type": "object", "additionalProperties": {}}],
    ids=str,
)  # fmt: skip
def test_what_expressions_cannot_access_is_not_declared(schema: dict[str, Any]) -> None:
    assert declare(schema) is None


@pytest.mark.parametrize(
    ("schema", "value", "converted"),
    [
        ({"type": "number"}, 1, 1.0),
        ({"type": "number"}, "x", "x"),
        ({"type": "integer"}, 1.0, 1),
        ({"type": "integer"}, 1.5, 1.5),
        (text(format="byte"), "YQ==", b"a"),
        ({"type": "array", "items": {"type": "number"}}, [1], [1.0]),
        ({"type": "array", "items": {"type": "number"}}, {"a": 1}, {"a": 1}),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1}, {"a": 1.0}),
        ({"type": "object", "additionalProperties": {"type": "number"}}, [1], [1]),
    ],
)
def test_values_are_converted(schema: dict[str, Any], value: Any, converted: Any) -> None:
    found = declare(schema)
    assert found is not None and found.convert is not None
    made = found.convert(value)
    assert (made, type(made)) == (converted, type(converted))
    if isinstance(made, (list, dict)):
        assert repr(made) == repr(converted)
