"""Patches that a command applies itself, by the types of Kubernetes' own API.

Upstream: kubectl ``cmd/util`` (OverrideOptions; Merge, StrategicMerge, JSONPatch), ``cmd/patch`` (getPatchedJSON).
Only this module of the commands loads the server's schemas, and only when a command has such a patch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kapi.kubectl.messages import SCHEME, CommandError
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.tree import Object, Tree

if TYPE_CHECKING:
    from kapi.schema.types import Type


class Patched(NamedTuple):
    """``text`` makes the text of the object in messages."""

    tree: Tree
    text: Callable[[], str]


def patched(obj: Object, patch: bytes, kind: str) -> Patched:
    """``kind``: json, merge or strategic.  Raises CommandError."""
    from kapi.codecs.json_reading import JSONError, loads_exactly
    from kapi.machinery.field import format_value
    from kapi.machinery.status import StatusError
    from kapi.schema import jsonpatch, mergepatch, patched_text, strategicmerge
    from kapi.schema.types import Kind, Type

    known = _type_of(obj)
    type_ = known or Type(Kind.ANY)
    if known is None and kind == "strategic":
        shown = f"{obj['apiVersion']}, Kind={obj['kind']}"
        raise CommandError(f"strategic merge patch is not supported for {shown} locally, try --type merge")
    try:
        change = loads_exactly(patch)
        if kind == "json":
            operations, _ = jsonpatch.decode(change, strict=False)
            result = jsonpatch.patched(obj, operations)
            return Patched(result, lambda: format_value(patched_text.json_patched(result, type_, operations)))
        if kind == "strategic":
            merged = strategicmerge.patched(obj, strategicmerge.decode(change), type_)
            return Patched(merged, lambda: format_value(patched_text.all_sorted(merged)))
    except (JSONError, StatusError) as error:
        whole = {"merge": "Invalid JSON Patch", "strategic": "invalid JSON document"}
        raise CommandError(whole.get(kind) or getattr(error, "message", "") or str(error)) from None
    except ValueError as error:  # the PatchErrors
        raise CommandError(str(error)) from None
    if not isinstance(change, dict | list):
        raise CommandError("Invalid JSON Patch")
    result = mergepatch.apply(obj, change)
    return Patched(result, lambda: format_value(patched_text.merged(result, type_, change)))


def unstructured(tree: Tree) -> Object:
    """An object of any kind.  Raises CommandError."""
    from kapi.codecs.json_reading import kind_of
    from kapi.machinery.field import format_value
    from kapi.schema.patched_text import all_sorted

    if not isinstance(tree, dict):
        raise CommandError(f"json: cannot unmarshal {kind_of(tree)} into Go value of type unstructured.detector")
    if not tree.get("kind"):
        raise CommandError(f"Object 'Kind' is missing in '{format_value(all_sorted(tree))}'")
    return tree


def decoded(tree: Tree, text: Callable[[], str] = str) -> Object:
    """An object after Go's decoder and encoder: without unknown fields, the others in Go's order.  Raises CommandError.

    ``text`` is the same as in ``Patched``; an object with a kind does not need it.
    """
    from kapi.codecs.reading import as_object, type_meta
    from kapi.schema.decode import decode_tree
    from kapi.schema.quoted import go_order

    try:
        version, kind = type_meta(as_object(tree))
        for name, value in (("Kind", kind), ("apiVersion", version)):
            if not value:
                raise CommandError(f"Object '{name}' is missing in '{text()}'")
        type_ = check_known(tree)
        fields, _ = decode_tree(tree, type_, strict=False)
    except ValueError as error:
        raise CommandError(str(error)) from None
    found: Object = go_order({**fields, "kind": kind, "apiVersion": version}, type_)
    return found


def check_known(obj: Object, scheme: str = SCHEME) -> Type:
    """The type of the object.  Raises CommandError for a kind outside of Kubernetes' own API."""
    type_ = _type_of(obj)
    if type_ is None:
        version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
        raise CommandError(f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"')
    return type_


def _type_of(obj: Object) -> Type | None:
    """The type of a kind; None outside of Kubernetes' own API.  Raises ValueError for an apiVersion with two slashes."""
    from kapi.schema.builtin import names_by_kind, type_of

    group, version = GroupVersion.parse(obj.get("apiVersion") or "")
    kind = GroupVersionKind(group, version, obj.get("kind") or "")
    return type_of(kind) if kind in names_by_kind() else None
