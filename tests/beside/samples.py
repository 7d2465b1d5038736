"""Random objects from the schemas of OpenAPI v3: mostly plausible, sometimes wrong in one place."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
Place = tuple[Any, ...]  # keys and indices from the root

_MAX_DEPTH = 8
_OPTIONAL = (1.0, 0.6, 0.35, 0.3, 0.2, 0.15, 0.1, 0.05)  # how often an optional field is there, by depth
_WRONG = 0.06  # of the values are of another kind than those that make sense
_NAMES = ("a", "b", "c-1")
_ODD_TEXTS = ("", "A_b", "-x", "a b", "x" * 70, "a/b", "1.2.3.4", "é")
_INTEGERS = (0, 1, 2, 3, 80, 443, 600)
_ODD_INTEGERS = (-1, 65536, 2**31, 2**40)
_QUANTITIES = ("1", "100m", "1Gi", "64Mi", "0", "2")
_ODD_QUANTITIES = ("-1", "x", "1.5", "1e3", "", "1GiB")
_KEYS = {
    "Quantity": ("cpu", "memory", "pods", "requests.cpu", "example.com/x"),
    "": ("app", "a", "example.com/x"),
}
#: what a field of this name usually holds, whatever type it is in
_BY_NAME: Mapping[str, tuple[Any, ...]] = {
    "apiGroup": ("", "apps", "rbac.authorization.k8s.io"),
    "apiGroups": ("", "apps", "*"),
    "image": ("i:1", "registry.example/a@sha256:" + "0" * 64),
    "ip": ("10.1.2.3", "fd00::1", "1.2.3"),
    "mountPath": ("/a", "/b", "a:b"),
    "path": ("/", "/a", "a/../b"),
    "pathType": ("Prefix", "Exact", "ImplementationSpecific", "x"),
    "protocol": ("TCP", "UDP", "SCTP", "x"),
    "schedule": ("* * * * *", "@daily", "1 2 3", "TZ=UTC 0 0 * * *"),
    "verbs": ("get", "list", "*"),
}


class Samples:
    """``schemas`` are the components of a document, by name."""

    def __init__(self, schemas: Mapping[str, Schema], chance: random.Random) -> None:
        self._schemas, self._chance = schemas, chance

    def of(self, name: str) -> dict[str, Any]:
        """An object of the schema with this name, without what identifies it and without a status, most of the time."""
        found: dict[str, Any] = self._value(self._schemas[name], "", 0)
        for field in ("apiVersion", "kind", "metadata"):
            found.pop(field, None)
        if self._chance.random() < 0.9:
            found.pop("status", None)
        return found

    def metadata(self, name: str) -> dict[str, Any]:
        meta: dict[str, Any] = {"name": name}
        for field in ("labels", "annotations"):
            if self._chance.random() < 0.3:
                meta[field] = {self._key(""): self._text("value") for _ in range(self._chance.randint(1, 2))}
        if self._chance.random() < 0.1:
            meta["finalizers"] = [self._chance.choice(("example.com/f", "f", "foregroundDeletion"))]
        return meta

    def _value(self, schema: Schema, name: str, depth: int) -> Any:
        chance = self._chance
        if chance.random() < _WRONG * min(depth, 1) / 3:
            return chance.choice((None, {}, [], 1, "x", True))
        type_ = ""
        while reference := _reference(schema):
            type_ = reference.rpartition(".")[2]
            schema = self._schemas[reference.rpartition("/")[2]]
        if type_ == "Quantity":
            return chance.choice(_ODD_QUANTITIES if chance.random() < _WRONG else _QUANTITIES)
        if "enum" in schema and chance.random() > _WRONG:
            return chance.choice(schema["enum"])
        if schema.get("format") == "int-or-string" or type_ == "IntOrString":
            return chance.choice((1, 80, "50%", "a", "0%", -1))
        if name in _BY_NAME and schema.get("type") in ("string", None):
            return chance.choice(_BY_NAME[name])
        kind = schema.get("type", "object" if "properties" in schema else "")
        if kind == "array":
            many = chance.choice((1, 1, 1, 2, 2, 0)) if depth < _MAX_DEPTH else 0
            return [self._value(schema.get("items", {}), name, depth + 1) for _ in range(many)]
        if kind == "object":
            return self._object(schema, depth)
        if kind == "boolean":
            return chance.random() < 0.5
        if kind in ("integer", "number"):
            return chance.choice(_ODD_INTEGERS if chance.random() < _WRONG else _INTEGERS)
        return self._formatted(schema.get("format", ""), name)

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        chance = self._chance
        properties: Mapping[str, Schema] = schema.get("properties", {})
        if not properties:
            values = schema.get("additionalProperties")
            if not isinstance(values, dict) or depth >= _MAX_DEPTH:
                return {}
            of = (_reference(values) or "").rpartition(".")[2]
            return {self._key(of): self._value(values, "value", depth + 1) for _ in range(chance.randint(1, 2))}
        required = schema.get("required", ())
        often = _OPTIONAL[min(depth, len(_OPTIONAL) - 1)]
        found = {
            name: self._value(values, name, depth + 1)
            for name, values in properties.items()
            if (name in required and chance.random() > _WRONG / 2) or (depth < _MAX_DEPTH and chance.random() < often)
        }
        if depth and chance.random() < _WRONG / 2:
            found["unknownField"] = "x"
        return found

    def _key(self, of: str) -> str:
        if self._chance.random() < _WRONG:
            return self._chance.choice(_ODD_TEXTS)
        return self._chance.choice(_KEYS.get(of, _KEYS[""]))

    def _formatted(self, form: str, name: str) -> str:
        if form == "date-time":
            return self._chance.choice(("2024-01-02T03:04:05Z", "2024-01-02T03:04:05.123456Z", "yesterday"))
        if form == "byte":
            return self._chance.choice(("YQ==", "YWJj", "?"))
        return self._text(name)

    def _text(self, name: str) -> str:
        if self._chance.random() < _WRONG:
            return self._chance.choice(_ODD_TEXTS)
        return self._chance.choice(_NAMES) if name != "value" else self._chance.choice(("a", "b", "1", "true"))


def _reference(schema: Schema) -> str | None:
    """The name of the schema that this one stands for."""
    if "$ref" in schema:
        found: str = schema["$ref"]
        return found
    every = schema.get("allOf", ())
    return _reference(every[0]) if len(every) == 1 else None


def places(tree: Any, at: Place = ()) -> Iterator[Place]:
    """Of all that is in a tree, the deepest last."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def parent_of(tree: Any, place: Place) -> Any:
    for key in place[:-1]:
        tree = tree[key]
    return tree


def without(tree: Any, place: Place) -> Any:
    """A copy that lacks what is at ``place``."""
    made = copy.deepcopy(tree)
    del parent_of(made, place)[place[-1]]
    return made


def smallest(tree: Any, still: Callable[[Any], bool], tries: int = 80) -> Any:
    """What is left of a tree when everything is removed without which ``still`` holds; at most so many are tried."""
    smaller = True
    while smaller and tries > 0:
        smaller = False
        for place in list(places(tree)):
            if tries <= 0:
                break
            try:
                candidate = without(tree, place)
            except (KeyError, IndexError, TypeError):
                continue  # it went with what it was in
            tries -= 1
            if still(candidate):
                tree, smaller = candidate, True
    return tree
