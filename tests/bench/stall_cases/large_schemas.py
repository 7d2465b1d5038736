"""Small requests about definitions that are large: custom resources, tables, OpenAPI, status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.stall_cases.case import APPLY, MERGE, SIZE, STORED, Case, Object, Place, Request, many
from tests.bench.stall_cases.custom import API, GROUP, NUMBER, OPEN, TEXT, array, definition, struct

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_TABLE_OF_OBJECTS = 500
_SETTLED = 3.0  # seconds until a large definition is served


def _properties(value: Object = TEXT, size: int = SIZE // 3) -> Object:
    return struct(dict.fromkeys(many(lambda i: f"p{i}", size), value))


def _defined(place: Place, make: Callable[[], Object], **version: Any) -> tuple[str, Case]:
    """The name of a resource, and how it is defined."""
    name = place.name().replace("-", "")
    made = place.create(API, "customresourcedefinitions", definition(name, make(), **version), namespaced=False)
    return name, made


def _first(
    make: Callable[[], Object],
    request: Callable[[str, str], Request],
    *,
    before: int = 0,
    spec: Callable[[], Object] = dict,
    **version: Any,
) -> Callable[[Place], Case]:
    """The first request that needs the schema: (plural, its path in the namespace) -> request.

    ``before``: objects, each with ``spec``.
    """

    def case(place: Place) -> Case:
        name, made = _defined(place, make, **version)
        path = place.path(f"/apis/{GROUP}/v1", name)
        objects = [
            Request("POST", path, _custom(name, f"o{number}", **spec()), patience=30.0) for number in range(before)
        ]
        return Case(
            request(name, path),
            before=[made.request, *objects],
            after=[Request("DELETE", path), *made.after],
            wait=_SETTLED,
        )

    return case


def _custom(name: str, own: str, **spec: Any) -> Object:
    return {"apiVersion": f"{GROUP}/v1", "kind": name.title(), "metadata": {"name": own}, "spec": spec}


def _create(name: str, path: str) -> Request:
    return Request("POST", path, _custom(name, "o", p0="v"))


def _apply(name: str, path: str) -> Request:
    return Request("PATCH", f"{path}/o?fieldManager=m", _custom(name, "o", p0="v"), APPLY)


def _get(path: str) -> Callable[[str, str], Request]:
    return lambda name, there: Request("GET", path)


def _changed(
    change: Callable[[Object], Object], make: Callable[[], Object], suffix: str = ""
) -> Callable[[Place], Case]:
    """A definition is patched; the patch is made of what it was."""

    def case(place: Place) -> Case:
        name, made = _defined(place, make)
        assert isinstance(made.request.body, dict)
        path = f"{made.request.path}/{name}.{GROUP}{suffix}"
        return Case(
            Request("PATCH", path, change(made.request.body), MERGE),
            before=[made.request],
            after=made.after,
            wait=_SETTLED,
            settle=1.0,
        )

    return case


def _any_of() -> Object:
    return {**struct({"a": TEXT}), "anyOf": many(lambda i: {"required": [f"a{i}"]}, SIZE // 2)}


def _columns(size: int) -> list[Object]:
    return many(lambda i: {"name": f"c{i}", "type": "string", "jsonPath": f".spec.c{i}"}, size)


def _walked() -> Object:
    return {"l": many(lambda i: {"k": i}, STORED // 4)}


_RULE = {"rule": "self.size() < 10"}
CASES: dict[str, Callable[[Place], Case]] = {
    "schema, properties: create": _first(_properties, _create),
    "schema, properties: apply": _first(_properties, _apply),
    "schema, properties: list": _first(_properties, lambda name, path: Request("GET", path)),
    "schema, properties: watch": _first(
        _properties, lambda name, path: Request("GET", f"{path}?watch=1&timeoutSeconds=1&sendInitialEvents=true"
                                                "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")),
    "schema, defaults: create": _first(lambda: _properties({**TEXT, "default": "d"}, SIZE // 8), _create),
    "schema, anyOf: create": _first(_any_of, _create),
    "schema, enum: create": _first(lambda: struct({"p0": {**TEXT, "enum": ["v", *many(lambda i: f"e{i}")]}}), _create),
    "schema, required: create": _first(lambda: struct({}, required=many(lambda i: f"p{i}")), _create),
    "schema, rules: create": _first(lambda: struct({f"p{i}": {**TEXT, "maxLength": 9, "x-kubernetes-validations": [_RULE]}
                                                    for i in range(SIZE // 100)}), _create),
    "schema, one default: create": _first(
        lambda: struct({"l": {**array(NUMBER), "default": many(lambda i: i, SIZE // 2)}}), _create),
    "schema, properties: OpenAPI v3": _first(_properties, _get(f"/openapi/v3/apis/{GROUP}/v1")),
    "schema, properties: OpenAPI v2": _first(_properties, _get("/openapi/v2")),
    "schema, anyOf: OpenAPI v3": _first(_any_of, _get(f"/openapi/v3/apis/{GROUP}/v1")),
    "schema, anyOf: OpenAPI v2": _first(_any_of, _get("/openapi/v2")),
    "columns: first table": _first(lambda: struct({}), lambda name, path: Request(
        "GET", path, headers={"Accept": _TABLE}), additionalPrinterColumns=_columns(SIZE // 2)),
    "columns: table of one": _first(lambda: struct({}), lambda name, path: Request(
        "GET", f"{path}/o0", headers={"Accept": _TABLE}), before=1, additionalPrinterColumns=_columns(SIZE // 2)),
    "columns: table of many": _first(lambda: struct({}), lambda name, path: Request(
        "GET", path, headers={"Accept": _TABLE}), before=_TABLE_OF_OBJECTS, additionalPrinterColumns=_columns(100_000)),
    "columns: found everywhere": _first(lambda: OPEN, lambda name, path: Request(
        "GET", path, headers={"Accept": _TABLE}), before=20, spec=_walked,
        additionalPrinterColumns=[{"name": f"c{i}", "type": "string", "jsonPath": f"..x{i}"} for i in range(40)]),
    "columns: table watched": _first(lambda: struct({}), lambda name, path: Request(
        "GET", f"{path}?watch=1&timeoutSeconds=1&resourceVersion=0", headers={"Accept": _TABLE}), before=1,
        additionalPrinterColumns=_columns(SIZE // 2)),
    "definition changed: a label": _changed(lambda crd: {"metadata": {"labels": {"a": "b"}}}, _any_of),
    "definition changed: its schema": _changed(
        lambda crd: {"spec": {"versions": definition("x", _properties())["spec"]["versions"]}}, _properties),
    "definition changed: status": _changed(
        lambda crd: {"status": {"conditions": many(lambda i: {
            "type": f"t{i}", "status": "True", "reason": "R", "message": "", "lastTransitionTime": None}, SIZE // 2)}},
        lambda: struct({}), "/status"),
    "definition changed: accepted names": _changed(
        lambda crd: {"status": {"acceptedNames": {"shortNames": many(lambda i: f"n{i}", SIZE // 2)}}},
        lambda: struct({}), "/status"),
    "discovery: many versions": _first(lambda: struct({}), _get("/apis")),
}  # fmt: skip
