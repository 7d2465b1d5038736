"""Objects as CBOR: a field that is ``[]byte`` in Go contains the bytes, with the tag for values that are base64 in JSON.

Upstream: apimachinery ``runtime/serializer/cbor`` (the encode mode's ByteSliceLaterFormat).
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from kapi.codecs import cbor_writing
from kapi.machinery.each import elements, entries
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.tree import Object, Tree
from kapi.schema import builtin
from kapi.schema.types import Kind, Type

Change = Callable[[Tree], Tree]
_changes: dict[GroupVersionKind, Change | None] = {}  # of the built-in kinds


def encode_tree(tree: Object) -> bytes:
    """An object or a list of objects, of any kind, as CBOR."""
    change = _change_of(tree)
    return cbor_writing.dumps(tree if change is None else change(tree))


def _change_of(tree: Object) -> Change | None:
    """The function that replaces base64 by bytes; None for a kind without such fields."""
    # the lists of discovery say no version
    kind = GroupVersionKind(*GroupVersion.parse(tree.get("apiVersion") or "v1"), tree["kind"])
    if kind in _changes:
        return _changes[kind]
    if kind not in builtin.names_by_kind():
        return None  # custom resources have only texts
    found = _changes[kind] = _change(builtin.type_of(kind), ())
    return found


def _change(type_: Type, around: tuple[Type, ...]) -> Change | None:
    """The change of a type.  ``around``: the types that contain it; a type that contains itself has no bytes further below."""
    if type_ in around:
        return None
    if type_.kind is Kind.BYTES:
        return _bytes
    below = (*around, type_)
    inner = None if type_.elem is None else _change(type_.elem, below)
    if inner is not None and type_.kind is Kind.LIST:
        return lambda value: [inner(item) for item in elements(value)]
    if inner is not None:
        return lambda value: {key: inner(item) for key, item in entries(value)}
    fields = {
        name: change for name, field in type_.fields.items() if (change := _change(field.type, below)) is not None
    }
    if not fields:
        return None

    def struct(value: Tree) -> Tree:
        changed = {name: change(value[name]) for name, change in fields.items() if value.get(name) is not None}
        return {**value, **changed}

    return struct


def _bytes(text: Tree) -> Tree:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # invalid base64, which another program has written
        return text
