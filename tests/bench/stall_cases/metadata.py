"""The parts of every object: owners, finalizers, labels, managed fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.stall_cases.case import SIZE, STORED, Case, Object, Place, config, many, mapping

CORE = "/api/v1"


def owner(number: int) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "name": f"p{number}", "uid": f"{number}"}


def fields(names: list[str]) -> Object:
    return {"f:data": {f"f:{name}": {} for name in names}}


def managed(number: int, tree: Any = None, manager: str = "") -> Object:
    return {
        "manager": manager or f"m{number}", "operation": "Update", "apiVersion": "v1", "time": "2024-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": tree or {"f:data": {"f:a": {}}},
    }  # fmt: skip


def _create(make: Callable[[], Object], query: str = "") -> Callable[[Place], Case]:
    return lambda place: place.create(CORE, "configmaps", make(), query=query)


def _update(place: Place) -> Case:
    made = place.create(CORE, "configmaps", config(ownerReferences=many(owner, STORED)))
    return place.change(made, made.request.body, "application/json", "PUT")


CASES: dict[str, Callable[[Place], Case]] = {
    "owner references": _create(lambda: config(ownerReferences=many(owner))),
    "owner references, all the same": _create(lambda: config(ownerReferences=many(lambda i: owner(0)))),
    "owner references, all controllers": _create(
        lambda: config(ownerReferences=many(lambda i: {**owner(i), "controller": True}))
    ),
    "owner references, update": _update,
    "finalizers": _create(lambda: config(finalizers=many(lambda i: f"a.b/{i}"))),
    "finalizers, wrong": _create(lambda: config(finalizers=many(lambda i: "?"))),
    "labels": _create(lambda: config(labels=mapping(lambda i: f"k{i}"))),
    "labels, wrong": _create(lambda: config(labels=mapping(lambda i: f"-{i}", "?"))),
    "annotations": _create(lambda: config(annotations=mapping(lambda i: f"k{i}"))),
    "managed fields, entries": _create(lambda: config(managedFields=many(managed))),
    "managed fields, one large": _create(
        lambda: config(managedFields=[managed(0, fields(many(lambda i: f"k{i}", SIZE // 2)))])
    ),
    "managed fields, deep": _create(
        lambda: config(managedFields=many(lambda i: managed(i, {"f:a": {"f:b": {'k:{"c":1}': {".": {}, "f:d": {}}}}})))
    ),
    "managed fields, keys": _create(
        lambda: config(managedFields=[managed(0, {"f:a": mapping(lambda i: f'k:{{"a":{i},"b":"c"}}', {})})])
    ),
    "data, many keys": _create(lambda: {**config(), "data": mapping(lambda i: f"k{i}")}),
    "data, one value": _create(lambda: {**config(), "data": {"k": '\u00e9\n"' * (SIZE // 10)}}),
    "data, wrong keys": _create(lambda: {**config(), "data": mapping(lambda i: f"?{i}")}),
    "data and binaryData": _create(
        lambda: {
            **config(),
            "data": mapping(lambda i: f"k{i}", size=SIZE // 2),
            "binaryData": mapping(lambda i: f"k{i}", size=SIZE // 2),
        }
    ),  # fmt: skip
    "unknown fields": _create(lambda: {**config(), **mapping(lambda i: f"u{i}", 1)}),
    "unknown fields, strict": _create(lambda: {**config(), **mapping(lambda i: f"u{i}", 1)}, "?fieldValidation=Strict"),
    "unknown fields of entries": _create(lambda: config(ownerReferences=many(lambda i: {**owner(i), "x": 1}))),
    "duplicate fields": lambda place: _raw(
        place, b'{"metadata":{"name":"d"},' + b",".join([b'"data":{"a":"b"}'] * (SIZE // 17)) + b"}"
    ),
    "duplicate keys": lambda place: _raw(
        place, b'{"metadata":{"name":"d"},"data":{' + b",".join([b'"a":"b"'] * (SIZE // 8)) + b"}}"
    ),
    "depth, lists": lambda place: _raw(place, b'{"data":' + b"[" * (SIZE // 2) + b"]" * (SIZE // 2) + b"}"),
    "depth, objects": lambda place: _raw(place, b'{"a":' * (SIZE // 6) + b"1" + b"}" * (SIZE // 6)),
    "numbers": lambda place: _raw(place, b'{"data":[' + b"1e9," * (SIZE // 4) + b"1]}"),
    "one number": lambda place: _raw(place, b'{"data":' + b"9" * SIZE + b"}"),
    "not JSON": lambda place: _raw(place, b'{"data":' + b'"' + b"\\" * SIZE),
    "controller revision": lambda place: place.create(
        "/apis/apps/v1", "controllerrevisions", {"revision": 1, "data": {"v": many(lambda i: {"a": i}, SIZE)}}
    ),
}


def _raw(place: Place, body: bytes) -> Case:
    case = place.create(CORE, "configmaps", config())
    case.request.body = body
    return case
