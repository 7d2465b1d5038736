"""JSON merge patch, RFC 7386, as the library that upstream uses applies it (evanphx/json-patch v4 ``MergePatch``)."""

from __future__ import annotations

from kapi.codecs.json_reading import kind_of
from kapi.machinery import tree
from kapi.machinery.each import elements, entries
from kapi.machinery.status import BadRequest
from kapi.machinery.tree import Object, Tree


def decode(value: Tree, *, strict: bool) -> Tree:
    """Checks a parsed merge patch.  ``strict`` is true for field validation Warn and Strict, else a list is one as well.

    Raises BadRequest.
    """
    if isinstance(value, dict):
        return value
    if strict and value is not None:
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {kind_of(value)} into Go value of type map[string]interface {{}}"
        )
    if not isinstance(value, list):
        raise BadRequest("Invalid JSON Patch")
    return [without_nulls(item) for item in elements(value)]


def apply(document: object, change: object) -> Tree:
    """The document with the change merged in; neither argument is changed, parts are shared."""
    if not isinstance(change, dict):
        return change
    if not isinstance(document, dict):
        return without_nulls(change)
    merged = dict(document)
    for key, value in entries(change):
        if value is None:
            merged.pop(key, None)
        elif merged.get(key) is None:
            merged[key] = without_nulls(value)
        else:
            merged[key] = _merge(merged[key], value)
    return merged


def _merge(document: object, change: object) -> Tree:
    if isinstance(document, dict) and isinstance(change, dict):
        return apply(document, change)
    return change if isinstance(document, dict) else without_nulls(change)


def without_nulls(value: object) -> Tree:
    """A copy without members that are null, however deep; elements of lists stay."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in entries(value) if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in elements(value)]
    return value


def difference(before: Tree, after: Tree) -> Object:
    """The merge patch that turns one object into the other."""
    change: Object = {}
    for key, value in entries(after):
        if key not in before:
            change[key] = tree.copy(value)
        elif isinstance(value, dict) and isinstance(before[key], dict):
            inner = difference(before[key], value)
            if inner:
                change[key] = inner
        elif type(value) is not type(before[key]) or not tree.equal(value, before[key]):
            change[key] = tree.copy(value)
    for key in elements(before):
        if key not in after:
            change[key] = None
    return change
