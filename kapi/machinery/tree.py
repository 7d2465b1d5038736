"""Plain JSON trees: copying and reading."""

from __future__ import annotations

from typing import Any

from kapi.machinery.checkpoint import steps


def copy(value: Any) -> Any:
    """A deep copy of a JSON tree; several times faster than ``copy.deepcopy``."""
    kind = type(value)
    if kind is dict:
        return {key: copy(item) if type(item) in (dict, list) else item for key, item in steps(value.items())}
    if kind is list:
        return [copy(item) if type(item) in (dict, list) else item for item in steps(value)]
    return value


def dig(tree: Any, *path: str) -> Any:
    """The value at a path of keys, or None where any step is missing."""
    for part in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(part)
    return tree
