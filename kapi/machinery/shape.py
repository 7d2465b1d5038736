"""Strict checks of configuration files: unknown fields and values of wrong types.

Upstream: apimachinery ``serializer`` with EnableStrict.  A shape is a dict (an object with these fields), a list with one
shape (a list of such values), or the type of a scalar: ``str``, ``bool``, ``int``.  The field ``str`` stands for all names.
"""

from __future__ import annotations

from kapi.machinery.tree import Tree

_NAMES = {str: "string", bool: "bool", int: "integer"}


def shape_errors(tree: object, shape: object) -> tuple[list[str], list[str]]:
    """(errors of wrong types, errors of unknown fields), each in the order of the file.

    Items of lists that are null become the empty value of their type, as in Go.
    """
    wrong: list[str] = []
    unknown: list[str] = []
    _check(tree, shape, "", wrong, unknown)
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
            inner = shape.get(key, shape.get(str))
            if inner is not None:
                _check(value, inner, at, wrong, unknown)
            else:
                unknown.append(f'unknown field "{at}"')
    elif isinstance(shape, list):
        if not isinstance(tree, list):
            wrong.append(f"{path}: must be a list")
            return
        for position, item in enumerate(tree):
            if item is None:
                tree[position] = shape[0]() if isinstance(shape[0], type) else {}
            _check(item, shape[0], f"{path}[{position}]", wrong, unknown)
    elif not isinstance(tree, shape) or shape is int and isinstance(tree, bool):
        wrong.append(f"{path}: must be {'an' if shape is int else 'a'} {_NAMES[shape]}")
