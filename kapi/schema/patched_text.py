"""The text of a patched object in error messages (upstream: evanphx/json-patch v4).

That library keeps parts that a patch does not touch as they are, with the fields of a struct in Go's order.  An object that a
patch changes becomes a Go map, whose keys are sorted.
"""

from __future__ import annotations

from kapi.codecs.json_reading import Literal
from kapi.machinery.each import elements
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree
from kapi.schema.quoted import go_order
from kapi.schema.types import Kind, Type

_AS_SENT = object()
_UNKNOWN = Type(Kind.ANY)
_WITH_VALUE = ("add", "replace")


def merged_member(value: Tree, change: Tree) -> Tree:
    """A raw member in the order of keys that a merge patch leaves."""
    return merged(value, _UNKNOWN, change)


def json_patched_member(value: Tree, name: str, operations: list[Object]) -> Tree:
    """A raw member in the order of keys that a JSON patch leaves."""
    visited = _visited(operations).get(name)
    return value if visited is None else _opened(value, _UNKNOWN, visited)


def visits(operations: list[Object], name: str) -> bool:
    """Whether operations of a JSON patch go into a member, or replace the object."""
    visited = _visited(operations)
    return name in visited or "" in visited


def all_sorted(value: object) -> Tree:
    """An object that Go holds as nested maps: also what a strategic merge patch leaves."""
    if isinstance(value, dict):
        return {key: all_sorted(value[key]) for key in elements(ordered(value))}
    if isinstance(value, list):
        return [all_sorted(item) for item in elements(value)]
    return float(value) if isinstance(value, Literal) else value


def _below(type_: Type, key: str) -> Type:
    if type_.kind is Kind.STRUCT:
        field = type_.fields.get(key)
        return _UNKNOWN if field is None else field.type
    return type_.elem or _UNKNOWN


def json_patched(result: Tree, type_: Type, operations: list[Object]) -> Tree:
    """A JSON patch's result with the order of keys of its text."""
    return _opened(result, type_, _visited(operations))


def merged(value: Tree, type_: Type, change: object) -> Tree:
    """A merge patch's result with the order of keys of its text."""
    if value is change:  # took the place of an object, and was not opened for its nulls
        return value
    if not isinstance(value, dict) or not isinstance(change, dict):
        return all_sorted(value)
    return {
        key: merged(value[key], _below(type_, key), change[key])
        if key in change
        else go_order(value[key], _below(type_, key))
        for key in elements(ordered(value))
    }


def _visited(operations: list[Object]) -> Object:
    """The objects and lists on the operations' paths, as a tree; values that an operation sets are ``_AS_SENT``."""
    root: Object = {}
    for operation in elements(operations):
        path = operation.get("path")
        if not isinstance(path, str):
            continue
        node = root
        *through, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]] or [""]
        for part in through:
            inner = node.get(part)
            if not isinstance(inner, dict):
                inner = node[part] = {}
            node = inner
        if operation.get("op") in _WITH_VALUE:
            node[last] = _AS_SENT
    return root


def _opened(value: Tree, type_: Type, visited: Tree) -> Tree:
    if visited is _AS_SENT:
        return value
    if visited is None:
        return go_order(value, type_)
    if isinstance(value, dict):
        return {key: _opened(value[key], _below(type_, key), visited.get(key)) for key in elements(ordered(value))}
    if isinstance(value, list):
        below = type_.elem or _UNKNOWN
        return [_opened(item, below, visited.get(str(i))) for i, item in enumerate(elements(value))]
    return value
