"""Values in error messages in Go's form: struct fields in their order, maps by key, ``{}`` or null for empty values.

Validation has JSON values, in which empty ones are missing.  Go's form follows from the error's field path: from the type there
and from the object that the client sent.  Upstream: ``util/validation/field`` ErrorBody.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.machinery.each import elements, entries
from kapi.machinery.field import OMIT, FieldError
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Tree
from kapi.schema.types import Field, Kind, Type

_NOTHING = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0, Kind.BOOLEAN: False}
_EMPTY: tuple[Tree, ...] = ({}, [])
#: (type, value) -> the value in messages, for internal types, which differ from the versioned ones
Internal = Callable[[Type, Tree], Tree]


def complete(
    errors: list[FieldError], type_: Type, sent: Callable[[], Tree] | None = None, internal: Internal | None = None
) -> None:
    """Brings the values of errors into Go's form, in place; ``sent`` returns the object as the client sent it."""
    tree: Tree = None
    completed: set[int] = set()  # by id: the same error may occur many times
    #: (id of a value, id of its type) -> (the value, so that its id stays valid, its form): many errors may quote one list
    shown: dict[tuple[int, int], tuple[Tree, Tree]] = {}
    for error in elements(errors):
        if error.value is OMIT or not (error.value is None or isinstance(error.value, dict | list)):
            continue
        if id(error) in completed:
            continue
        completed.add(id(error))
        found = _place(type_, error.field)
        if found is None:
            continue
        kind, field, path = found
        if error.value is not None:
            key = id(error.value), id(kind)
            if key not in shown:
                value = _shown(error.value, kind, internal)
                if sent is not None and path:
                    tree = sent() if tree is None else tree
                    value = _with_empties(value, _at(tree, path))
                shown[key] = error.value, value
            error.value = shown[key][1]
        elif field is not None and not field.pointer:
            if kind.kind in (Kind.LIST, Kind.MAP) and sent is not None:
                tree = sent() if tree is None else tree
                value = _at(tree, path)
                error.value = value if value in _EMPTY else None
            else:
                error.value = _NOTHING.get(kind.kind)


def _shown(value: object, type_: Type, internal: Internal | None) -> Tree:
    if internal is not None:
        value = internal(type_, value)
    return go_order(value, type_)


def _with_empties(shown: object, sent: object) -> Tree:
    """A value of an internal type with the empty lists and maps that the client sent in place of null."""
    if shown is None:
        return sent if sent in _EMPTY else None
    if isinstance(shown, list) and isinstance(sent, list) and len(shown) == len(sent):
        return [_with_empties(item, given) for item, given in elements(zip(shown, sent, strict=True))]
    if isinstance(shown, dict) and isinstance(sent, dict):
        given = {name.lower(): value for name, value in entries(sent)}
        return {name: _with_empties(value, given.get(name.lower())) for name, value in entries(shown)}
    return shown


def go_order(tree: object, type_: Type) -> Tree:
    """A copy of a tree with the fields of structs in Go's order and maps sorted."""
    if isinstance(tree, dict):
        if type_.kind is Kind.STRUCT:
            known = {name: go_order(tree[name], field.type) for name, field in type_.fields.items() if name in tree}
            return {**known, **{name: value for name, value in tree.items() if name not in known}}
        if type_.kind is Kind.MAP and type_.elem is not None:
            return {name: go_order(tree[name], type_.elem) for name in elements(ordered(tree))}
    if isinstance(tree, list) and type_.elem is not None:
        return [go_order(item, type_.elem) for item in elements(tree)]
    return tree


def _place(type_: Type, text: str) -> tuple[Type, Field | None, list[str | int]] | None:
    """The type at a field path such as ``spec.containers[0].name``; None where the path is not one of the type."""
    field: Field | None = None
    path: list[str | int] = []
    rest = text
    while rest:
        if type_.kind is Kind.STRUCT:
            name = rest.removeprefix(".")
            ends = [at for at in (name.find("."), name.find("[")) if at >= 0]
            name = name[: min(ends)] if ends else name
            rest = rest.removeprefix(".")[len(name) :]
            field = type_.fields.get(name)
            if field is None:
                return None
            type_ = field.type
            path.append(name)
        elif type_.elem is not None and rest.startswith("["):
            inside, closed, rest = rest[1:].partition("]")
            if not closed or type_.kind is Kind.LIST and not inside.isdecimal():
                return None
            path.append(int(inside) if type_.kind is Kind.LIST else inside)
            type_, field = type_.elem, None
        else:
            return None
    return type_, field, path


def _at(tree: Tree, path: list[str | int]) -> Tree:
    for part in path:
        try:
            tree = tree[part]
        except (KeyError, IndexError, TypeError):
            return None
    return tree
