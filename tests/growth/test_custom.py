"""What a custom resource costs grows with its size, whatever its schema says of its lists and maps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from msgspec import Raw

from kapi.endpoints.openapi.custom import custom_schemas
from kapi.endpoints.openapi.schemas import V2, V3
from kapi.endpoints.transform import table
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource
from kapi.servers.apiextensions.outline import outline
from kapi.servers.apiextensions.rows import Rows
from kapi.servers.apiextensions.rows import table as columns_of
from tests.growth.counting import lines, steepest, stretches
from tests.growth.work import WORK, Work

FEW = 12  # entries
FACTOR = 6.0  # of the work for four times as many
LEAST = 10 * FEW

ENTRY: Object = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "port": {"type": "integer", "default": 80},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "more": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
    },
}
TEXT: Object = {"type": "string", "maxLength": 4}
NUMBER: Object = {"type": "integer", "maximum": 20, "enum": list(range(18))}
ATOMIC = {"x-kubernetes-list-type": "atomic"}
SET = {"x-kubernetes-list-type": "set"}
MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}
#: of the field ``items``
SCHEMAS: dict[str, Object] = {
    "list": {"type": "array", "items": TEXT},
    "atomic list": {"type": "array", "items": ENTRY, **ATOMIC},
    "set": {"type": "array", "items": TEXT, **SET},
    "set of numbers": {"type": "array", "items": NUMBER, **SET},
    "set of lists": {"type": "array", "items": {"type": "array", "items": TEXT, **ATOMIC}, **SET},
    "set of objects": {"type": "array", "items": {**ENTRY, "x-kubernetes-map-type": "atomic"}, **SET},
    "keyed list": {"type": "array", "items": ENTRY, **MAP},
    "unique items": {"type": "array", "items": ENTRY, "uniqueItems": True},
    "bounded list": {"type": "array", "items": ENTRY, "maxItems": 2},
    "alternatives": {"type": "array", "items": {"type": "string", "anyOf": [{"maxLength": 1}, {"minLength": 9}]}},
    "map": {"type": "object", "additionalProperties": TEXT},
    "map of objects": {"type": "object", "additionalProperties": ENTRY},
    "map of lists": {"type": "object", "additionalProperties": {"type": "array", "items": ENTRY, **MAP}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "pruned": {"type": "object"},
    "ruled": {
        "type": "array", "items": {**TEXT, "x-kubernetes-validations": [{"rule": "self != 'k3'"}]},
        "x-kubernetes-validations": [{"rule": "self.distinct().size() == self.size()"}, {"rule": "sets.contains(self, oldSelf)"}],
    },
    "ruled set": {
        "type": "array", "items": {**ENTRY, "x-kubernetes-map-type": "atomic"}, **SET,
        "x-kubernetes-validations": [{"rule": "(self + oldSelf).size() == self.size()"}, {"rule": "self == oldSelf"}],
    },
    "ruled keyed list": {
        "type": "array", "items": ENTRY, **MAP,
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}, {"rule": "self.distinct().size() == 0"}],
    },
}  # fmt: skip
COLUMNS = [
    {"name": name, "type": "string", "jsonPath": path}
    for name, path in (
        ("one", '.spec.items[?(@.name=="k3")].port'),
        ("two", ".spec..tags"),
        ("three", ".spec.items[*]"),
    )
]


def row_of(schema: Object) -> Any:
    spec = {"type": "object", "properties": {"items": schema}}
    version = {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "additionalPrinterColumns": COLUMNS,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": spec}}},
    }  # fmt: skip
    names = {"plural": "foos", "kind": "Foo"}
    crd = {
        "metadata": {"name": "foos.example.com", "uid": "u"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [version], "names": names},
    }
    return Rows(outline(orjson.dumps(crd))).all["v1"]


def entry(schema: Object, number: int) -> Any:
    if schema["type"] == "string":
        return f"k{number}"
    if schema["type"] == "integer":
        return number
    if schema["type"] == "array":
        return [entry(schema["items"], number)]
    return {"name": f"k{number}", "tags": [f"k{number}"], "more": {"a": f"k{number}"}, "unknown": number}


def body(schema: Object, count: int, distinct: bool) -> Object:
    inner = schema.get("items") or schema.get("additionalProperties") or ENTRY
    entries = [entry(inner, number if distinct else 0) for number in range(count)]
    items = entries if schema["type"] == "array" else {f"k{number}": each for number, each in enumerate(entries)}
    metadata = {"name": "x", "namespace": "n"}
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata, "spec": {"items": items}}


@pytest.mark.parametrize("do", WORK)
@pytest.mark.parametrize("name", SCHEMAS)
def test_no_line_runs_more_than_in_proportion(name: str, do: Callable[[Work, Object], Callable[[], None]]) -> None:
    schema = SCHEMAS[name]
    work = Work(row_of(schema))
    for distinct in (True, False):
        do(work, body(schema, FEW, distinct))()  # compiles rules, columns and the like
        try:
            few, many = (lines(do(work, body(schema, count, distinct))) for count in (FEW, 4 * FEW))
        except StatusError:  # does not apply to custom resources
            continue
        worst, where = steepest(few, many, LEAST)
        assert worst <= FACTOR, f"{where}, distinct: {distinct}"


def _properties(count: int, **more: Any) -> Object:
    return {"type": "object", "properties": {f"p{number}": {**TEXT, **more} for number in range(count)}}


#: of the field ``items``, by how much there is in it
LARGE: dict[str, Callable[[int], Object]] = {
    "properties": _properties,
    "defaults": lambda count: _properties(count, default="d"),
    "rules": lambda count: _properties(count, **{"x-kubernetes-validations": [{"rule": "self != 'a'"}]}),
    "alternatives": lambda count: {
        "type": "object",
        "properties": {"p0": TEXT},
        "anyOf": [{"required": [f"p{number}"]} for number in reversed(range(count))],
    },
    "required": lambda count: {**_properties(1), "required": [f"p{number}" for number in range(count)]},
    "enum": lambda count: _properties(1, enum=[f"e{number}" for number in range(count)]),
    "nested": lambda count: {"type": "object", "properties": {f"q{number}": _properties(4) for number in range(count // 4)}},
    "embedded": lambda count: {
        **_properties(count), "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True,
    },
}  # fmt: skip


def _first_use(schema: Object) -> Callable[[], None]:
    """A small object of a definition that nobody has asked for yet, in every way; and what is published of it."""
    row = row_of(schema)
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "y"}, "p0": "v"}
    small = body({"type": "object"}, 0, True) | {"spec": {"items": obj}}

    def work() -> None:
        made = Work(row)
        for do in WORK:
            _quietly(lambda do=do: do(made, small)())
        for prefix in (V2, V3):
            for make in custom_schemas([row], prefix).values():
                make()

    return work


def _quietly(work: Callable[[], None]) -> None:
    try:
        work()
    except StatusError:  # is an answer, too
        pass


@pytest.mark.parametrize("name", LARGE)
def test_no_stretch_without_a_checkpoint_grows_with_a_schema(name: str) -> None:
    _first_use(LARGE[name](4))()  # what is made once for all
    few, many = (stretches(_first_use(LARGE[name](count))) for count in (200, 800))
    assert many.longest < max(1600, 2 * few.longest), many.where


def shown(row: Resource, obj: Object) -> None:
    assert len(table(row, [obj, obj], {}, now=0.0)["rows"]) == 2


def test_no_stretch_without_a_checkpoint_grows_with_columns() -> None:
    def work(count: int) -> Callable[[], None]:
        columns = [{"name": f"c{number}", "type": "string", "jsonPath": f".spec.c{number}"} for number in range(count)]
        raw = Raw(orjson.dumps(columns))
        obj = body({"type": "object"}, 0, True)
        row = dataclasses.replace(row_of({"type": "object"}), table=columns_of(raw))
        return lambda: shown(row, obj)

    work(4)()
    few, many = (stretches(work(count)) for count in (200, 800))
    assert many.longest < max(1600, 2 * few.longest), many.where
