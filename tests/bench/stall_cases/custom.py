"""Custom resource definitions and custom resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.stall_cases.case import APPLY, MERGE, SIZE, STORED, Case, Object, Place, Request, many

API, GROUP = "/apis/apiextensions.k8s.io/v1", "stalls.example.com"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def definition(name: str, spec: Object, **version: Any) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"plural": name, "kind": name.title()},
            "scope": "Namespaced",
            "versions": versions,
        },
    }


def struct(properties: Object, **more: Any) -> Object:
    return {"type": "object", "properties": properties, **more}


def array(items: Object, **more: Any) -> Object:
    return {"type": "array", "items": items, **more}


def nested(depth: int) -> Object:
    found: Object = TEXT
    for _ in range(depth):
        found = struct({"a": found})
    return found


def _defines(make: Callable[[], Object], **version: Any) -> Callable[[Place], Case]:
    def case(place: Place) -> Case:
        name = place.name().replace("-", "")
        return place.create(API, "customresourcedefinitions", definition(name, make(), **version), namespaced=False)

    return case


def _version(make: Callable[[], Object]) -> Callable[[Place], Case]:
    """More of the version than its schema."""
    return lambda place: _defines(lambda: struct({}), **make())(place)


def _resource(schema: Object, spec: Callable[[], Any], **version: Any) -> Callable[[Place], Case]:
    """Creates a custom resource."""

    def case(place: Place) -> Case:
        name = place.name().replace("-", "")
        defined = place.create(API, "customresourcedefinitions", definition(name, schema, **version), namespaced=False)
        body = {"apiVersion": f"{GROUP}/v1", "kind": name.title(), "spec": spec()}
        made = place.create(f"/apis/{GROUP}/v1", name, body)
        made.before = [defined.request]
        made.after += defined.after
        made.wait = 2.0
        return made

    return case


def _applied(schema: Object, spec: Callable[[], Any]) -> Callable[[Place], Case]:
    """The resource is made, then the same is applied by another manager."""

    def case(place: Place) -> Case:
        made = _resource(schema, spec)(place)
        assert isinstance(made.request.body, dict)
        changed = place.change(made, made.request.body, APPLY, suffix="?fieldManager=other&force=true")
        changed.before.insert(1, Request("GET", f"{API}/customresourcedefinitions"))
        return changed

    return case


def _converted(place: Place) -> Case:
    """A large object is asked for in a version that a webhook makes of it."""
    made = _resource(OPEN, lambda: {"l": many(_entry, SIZE - 10_000)})(place)
    defined, created = made.before[0], made.request
    assert isinstance(defined.body, dict) and isinstance(created.body, dict)
    versions = defined.body["spec"]["versions"]
    versions.append({**versions[0], "name": "v2", "storage": False})
    client = place.hook("ValidatingWebhookConfiguration", "convert", place.namespace)["webhooks"][0]["clientConfig"]
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    defined.body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    made.before.append(Request("GET", created.path, patience=20.0))
    made.before.append(created)
    made.request = Request("GET", f"{created.path.replace('/v1/', '/v2/')}/{created.body['metadata']['name']}")
    return made


def _ruled(schema: Object, *rules: str) -> Object:
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def _rules(count: int) -> Object:
    """A schema with many rules, each of which is compiled and estimated."""
    return struct({f"p{index}": {**TEXT, "maxLength": 10, "x-kubernetes-validations": [{"rule": f"self != '{index}'"}]}
                   for index in range(count)})  # fmt: skip


_KEYED = array(struct({"k": TEXT, "v": TEXT}, required=["k"]), **{
    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})  # fmt: skip
_SET = array(TEXT, **{"x-kubernetes-list-type": "set"})
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFAULTED = struct({"l": array(struct({f"f{index}": {**TEXT, "default": "d"} for index in range(20)}))})
_OBJECT_SET = array({**struct({"k": TEXT}), "x-kubernetes-map-type": "atomic"}, **{"x-kubernetes-list-type": "set"})


def _entry(number: int) -> Object:
    return {"k": f"k{number}", "v": "v"}


CASES: dict[str, Callable[[Place], Case]] = {
    "definition: properties": _defines(lambda: struct(dict.fromkeys(many(lambda i: f"p{i}", SIZE // 3), TEXT))),
    "definition: depth": _defines(lambda: nested(5000)),
    "definition: enum": _defines(lambda: {**TEXT, "enum": many(lambda i: f"e{i}")}),
    "definition: required": _defines(lambda: struct({}, required=many(lambda i: f"p{i}"))),
    "definition: rules": _defines(lambda: _rules(SIZE // 100)),
    "definition: long rule": _defines(lambda: _ruled(struct({"a": NUMBER}), " && ".join(["self.a > 0"] * (SIZE // 14)))),
    "definition: deep rule": _defines(lambda: _ruled(struct({"a": NUMBER}), "!" * (SIZE - 1000) + "true")),
    "definition: anyOf": _defines(lambda: {**struct({"a": TEXT}), "anyOf": many(lambda i: {"required": [f"a{i}"]})}),
    "definition: default": _defines(lambda: {**array(struct({"k": TEXT})), "default": many(_entry)}),
    "definition: pattern": _defines(lambda: {**TEXT, "pattern": "(a|b)*" * (SIZE // 6)}),
    "definition: columns": _version(lambda: {"additionalPrinterColumns": many(
        lambda i: {"name": f"c{i}", "type": "string", "jsonPath": f".spec.c{i}"})}),
    "definition: selectable fields": _version(lambda: {"selectableFields": many(lambda i: {"jsonPath": f".spec.c{i}"})}),
    "definition: names": lambda place: place.create(API, "customresourcedefinitions", (lambda found: {**found, "spec": {
        **found["spec"], "names": {**found["spec"]["names"], "shortNames": many(lambda i: f"n{i}")}}})(
        definition(place.name().replace("-", ""), struct({}))), namespaced=False),
    "definition: versions": lambda place: place.create(API, "customresourcedefinitions", (lambda found: {**found, "spec": {
        **found["spec"], "versions": many(lambda i: {**found["spec"]["versions"][0], "name": f"v{i + 1}", "storage": not i})}})(
        definition(place.name().replace("-", ""), struct({}))), namespaced=False),
    "custom: list map": _resource(struct({"l": _KEYED}), lambda: {"l": many(_entry)}),
    "custom: list map, same keys": _resource(struct({"l": _KEYED}), lambda: {"l": many(lambda i: _entry(0))}),
    "custom: set": _resource(struct({"l": _SET}), lambda: {"l": many(lambda i: f"{i}")}),
    "custom: set of objects": _resource(struct({"l": _OBJECT_SET}), lambda: {"l": many(lambda i: {"k": f"{i}"})}),
    "custom: unique items": _resource(struct({"l": array(TEXT)}), lambda: {"l": many(lambda i: f"{i}")}),
    "custom: wrong types": _resource(struct({"l": array(TEXT)}), lambda: {"l": many(lambda i: i)}),
    "custom: enum": _resource(
        struct({"l": array({**TEXT, "enum": [f"e{index}" for index in range(5000)]})}),
        lambda: {"l": many(lambda i: "e4999", 400_000)}
    ),
    "custom: pruned": _resource(struct({"l": array(struct({}))}), lambda: {"l": many(_entry)}),
    "custom: defaulted": _resource(_DEFAULTED, lambda: {"l": many(lambda i: {}, SIZE // 20)}),
    "custom: preserved": _resource(OPEN, lambda: {"l": many(_entry), "d": {}}),
    "custom: pattern": _resource(struct({"l": array({**TEXT, "pattern": "^(a|aa|aaa)+$"})}),
        lambda: {"l": ["a" * 1000] * (SIZE // 1003)}),
    "custom: rule over all": _resource(
        struct({"l": _ruled(array({**TEXT, "maxLength": 10}, maxItems=1000), "self.all(x, self.exists_one(y, x == y))")}),
        lambda: {"l": [f"{index}" for index in range(1000)]},
    ),
    "custom: rule for each": _resource(
        struct({"l": array(_ruled(struct({"k": {**TEXT, "maxLength": 10}}), "self.k.size() >= 0"), maxItems=200_000)}),
        lambda: {"l": many(lambda i: {"k": f"{i}"})},
    ),
    "custom: applied list map": _applied(struct({"l": _KEYED}), lambda: {"l": many(_entry, STORED)}),
    "custom: applied set": _applied(struct({"l": _SET}), lambda: {"l": many(lambda i: f"{i}", STORED)}),
    "custom: converted": _converted,
    "custom: merged": lambda place: (lambda made: place.change(made, {"spec": {"l": many(_entry)}}, MERGE))(
        _resource(struct({"l": _KEYED}), lambda: {"l": many(_entry, STORED)})(place)),
}  # fmt: skip
