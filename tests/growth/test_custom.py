"""What a custom resource costs grows with its size, whatever its schema says of its lists and maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kapi.apiextensions.outline import outline
from kapi.apiextensions.rows import Rows
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from tests.growth.counting import lines, steepest
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
