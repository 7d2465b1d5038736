"""Correlation of the new object's parts with the old one's, for ratcheting (upstream: apiserver ``cel/common/equality.go``)."""

from __future__ import annotations

import time

from kapi.machinery.each import elements, entries
from kapi.machinery.meters import exponential, histogram
from kapi.machinery.tree import Tree
from kapi.schema.structural.structure import Schema, additional

RATCHETING = histogram("apiextensions_apiserver_validation_ratcheting_seconds", exponential(1e-05, 4, 10))


#: the old value where there is none
ABSENT: Tree = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()


def same(one: object, other: object) -> bool:
    """Deep equality of JSON values: true is not 1, 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and len(one) == len(other)
            and all(k in other and same(v, other[k]) for k, v in entries(one))
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(same(a, b) for a, b in elements(zip(one, other, strict=False)))
        )
    return bool(one == other) and isinstance(one, str) is isinstance(other, str)


def is_unchanged(value: object, old: object, schema: Schema) -> bool:
    """Whether an invalid part may stay, since it is unchanged (upstream: CachedDeepEqual); its duration is measured.

    Elements of associative lists are compared by their keys, in any order.
    """
    began = time.monotonic()
    try:
        return _correlates(value, old, schema)
    finally:
        RATCHETING.observe(time.monotonic() - began)


def _correlates(value: object, old: object, schema: Schema) -> bool:
    if isinstance(value, dict):
        if not isinstance(old, dict) or len(value) != len(old):
            return False
        properties, extra = schema.get("properties") or {}, additional(schema)
        for name, item in entries(value):
            below = properties.get(name, extra)
            if below is None or name not in old or not _correlates(item, old[name], below):
                return False  # a field without a schema has no old value
        return True
    if isinstance(value, list):
        before = old_items(old, schema)
        items = schema.get("items")
        if not before or not isinstance(items, dict):
            return same(value, old)
        assert isinstance(old, list)
        found = ((item, old_item(before, schema, item)) for item in elements(value))
        return len(value) == len(old) and all(
            one is not ABSENT and _correlates(item, one, items) for item, one in found
        )
    return same(value, old)


def identity(value: object) -> Tree:
    """A hashable key of a JSON value: two keys are equal exactly if the values are ``same``."""
    if isinstance(value, dict):
        return (dict, frozenset((name, identity(item)) for name, item in entries(value)))
    if isinstance(value, list):
        return (list, tuple(map(identity, elements(value))))
    return (bool, value) if isinstance(value, bool) else value


def _key(item: object, names: list[str], schema: Schema) -> tuple[Tree, ...] | None:
    if not isinstance(item, dict):
        return None
    properties = (schema.get("items") or {}).get("properties") or {}
    found = []
    for name in names:
        value = item[name] if name in item else (properties.get(name) or {}).get("default")
        if isinstance(value, (dict, list)):
            return None
        found.append((value.__class__, value))
    return tuple(found)


def old_items(old: object, schema: Schema) -> dict[tuple[Tree, ...], Tree]:
    """The old elements of an associative list by their keys; empty for other lists, whose elements have no keys."""
    names = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not names or not isinstance(old, list):
        return {}
    found: dict[tuple[Tree, ...], Tree] = {}
    for item in elements(old):
        key = _key(item, names, schema)
        if key is not None:
            found.setdefault(key, item)
    return found


def old_item(before: dict[tuple[Tree, ...], Tree], schema: Schema, item: object) -> Tree:
    """The old element with the key of ``item``, or ABSENT."""
    if not before:
        return ABSENT
    key = _key(item, schema.get("x-kubernetes-list-map-keys") or [], schema)
    return ABSENT if key is None else before.get(key, ABSENT)
