"""Strict reading of configuration files: what a field may hold, and which fields there are.

Upstream: apimachinery ``serializer`` with EnableStrict.  A shape is a dict of fields (an object), a list of one shape (a
list of such), or a type of scalars: ``str``, ``bool``.
"""

from __future__ import annotations

from kapi.machinery.tree import Tree

_NAMES = {str: "string", bool: "bool"}


def shape_errors(tree: object, shape: object, path: str = "") -> tuple[list[str], list[str]]:
    """(values of another type than their field, fields that do not exist), in the order of the file."""
    wrong: list[str] = []
    unknown: list[str] = []
    _check(tree, shape, path, wrong, unknown)
    return wrong, unknown


def _check(tree: Tree, shape: Tree, path: str, wrong: list[str], unknown: list[str]) -> None:
    if tree is None:
        return
    if isinstance(shape, dict):
        if not isinstance(tree, dict):
            wrong.append(f"{path or 'document'}: must be an object")
            return
        for key, value in tree.items():
            at = f"{path}.{key}" if path else str(key)
            if key in shape:
                _check(value, shape[key], at, wrong, unknown)
            else:
                unknown.append(f'unknown field "{at}"')
    elif isinstance(shape, list):
        if not isinstance(tree, list):
            wrong.append(f"{path}: must be a list")
            return
        for position, item in enumerate(tree):
            _check(item, shape[0], f"{path}[{position}]", wrong, unknown)
    elif not isinstance(tree, shape):
        wrong.append(f"{path}: must be a {_NAMES[shape]}")
