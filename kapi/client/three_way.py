"""Three-way merge: the patch that applies a manifest to an object (upstream: apimachinery ``strategicpatch`` and
``jsonmergepatch``, CreateThreeWayMergePatch).

Of the three trees, ``original`` is the manifest that was applied last, ``modified`` the one to apply, ``current`` the object.
The patch removes fields of ``original`` that are not in ``modified``; fields that are in neither stay.  With a schema it is a
strategic merge patch, whose lists may be merged by a key, otherwise a JSON merge patch.
"""

from __future__ import annotations

from typing import Protocol

import orjson

from kapi.machinery import golang
from kapi.machinery.tree import Object, Tree

ELEMENT_ORDER = "$setElementOrder/"
MAX_REFERENCES = 16  # references that are followed from one schema
_ABSENT: Tree = object()


class Schema(Protocol):
    """The schema of a value for a strategic merge patch."""

    def field(self, name: str) -> tuple[Schema, str, str]:
        """The schema of a field, its patch strategies (``merge,retainKeys``), and its list's merge key."""


class OpenAPISchema:
    """A Schema of an OpenAPI v3 document."""

    def __init__(self, document: Object, schema: Object) -> None:
        self._document, self._schema = document, schema

    @classmethod
    def of_kind(cls, document: Object, group: str, version: str, kind: str) -> OpenAPISchema | None:
        """None when there is no such kind, or when it has no strategic merge patch."""
        wanted = {"group": group, "version": version, "kind": kind}
        if not _takes_strategic(document, wanted):
            return None
        for schema in ((document.get("components") or {}).get("schemas") or {}).values():
            if wanted in schema.get("x-kubernetes-group-version-kind", ()):
                return cls(document, schema)
        return None

    def field(self, name: str) -> tuple[OpenAPISchema, str, str]:
        schema = self._resolved(self._schema)
        found = (schema.get("properties") or {}).get(name)
        if found is None:
            found = schema.get("additionalProperties")
            found = found if isinstance(found, dict) else {}
        strategy, key = found.get("x-kubernetes-patch-strategy", ""), found.get("x-kubernetes-patch-merge-key", "")
        inner = self._resolved(found)
        return OpenAPISchema(self._document, inner.get("items") or inner), strategy, key

    def _resolved(self, schema: Object) -> Object:
        """The schema that a reference leads to; a reference may stand alone or in an ``allOf``."""
        for _ in range(MAX_REFERENCES):
            parts = schema.get("allOf") or []
            reference = schema.get("$ref")
            if not reference and len(parts) == 1:
                reference = parts[0].get("$ref")
            if not reference:
                break
            name = str(reference).rpartition("/")[2]
            schema = ((self._document.get("components") or {}).get("schemas") or {}).get(name) or {}
        return schema


def _takes_strategic(document: Object, wanted: Object) -> bool:
    for operations in (document.get("paths") or {}).values():
        patch = operations.get("patch")
        if patch and patch.get("x-kubernetes-group-version-kind") == wanted:
            content = (patch.get("requestBody") or {}).get("content") or {}
            return "application/strategic-merge-patch+json" in content
    return False


class PatchConflict(Exception):
    """A patch and the changes since the last apply give a field different values."""

    def __init__(self, patch: Object, changes: Object) -> None:
        super().__init__("the patch conflicts with changes made from original to current")
        self.patch, self.changes = patch, changes


def three_way_patch(
    original: Object, modified: Object, current: Object, schema: Schema | None = None, *, overwrite: bool = True
) -> Object:
    """The patch; {} when there is nothing to change.

    With a schema, and without ``overwrite``, what was changed since the last apply must not be changed otherwise.  Raises
    ValueError and PatchConflict.
    """
    patch = _object(original, modified, current, schema)
    if schema is not None and not overwrite:
        changes = _without_orders(_object(original, current, original, schema))
        if _conflict(patch, changes, schema):
            raise PatchConflict(patch, changes)
    return patch


def _same(left: object, right: object) -> bool:
    return orjson.dumps(left, option=orjson.OPT_SORT_KEYS) == orjson.dumps(right, option=orjson.OPT_SORT_KEYS)


def _object(original: Object, modified: Object, current: Object, schema: Schema | None) -> Object:
    patch: Object = {key: None for key in original if key not in modified}
    for key, new in modified.items():
        inner, strategies, merge_key = schema.field(key) if schema is not None else (None, "", "")
        _one(patch, key, (original.get(key, _ABSENT), new, current.get(key, _ABSENT)), inner, strategies, merge_key)
    return patch


def _one(
    patch: Object, key: str, values: tuple[Tree, Tree, Tree], schema: Schema | None, strategies: str, merge_key: str
) -> None:
    """Adds the changes of one field to the patch."""
    old, new, now = values
    ways = strategies.split(",")
    if isinstance(new, dict) and isinstance(now, dict):
        old = old if isinstance(old, dict) else {}
        if "replace" in ways:
            if not _same(new, now):
                patch[key] = {**new, "$patch": "replace"}
            return
        if found := _retaining(_object(old, new, now, schema), new, now, ways):
            patch[key] = found
    elif isinstance(new, list) and isinstance(now, list) and "merge" in ways and schema is not None:
        old = old if isinstance(old, list) else []
        if merge_key:
            _merged_list(patch, key, (old, new, now), schema, merge_key, ways)
        else:
            _merged_set(patch, key, old, new, now)
    elif now is _ABSENT or not _same(new, now):
        patch[key] = new


def _retaining(patch: Object, new: Object, now: Object, ways: list[str]) -> Object:
    """The patch, with the names of the fields that stay where the strategy removes all others."""
    kept = sorted(name for name in new if new[name] is not None) if "retainKeys" in ways else []
    if kept and (patch or any(name not in new for name, value in now.items() if value is not None)):
        patch["$retainKeys"] = kept
    return patch


def _merged_list(
    patch: Object,
    key: str,
    values: tuple[list[Object], list[Object], list[Object]],
    schema: Schema,
    merge_key: str,
    ways: list[str],
) -> None:
    """Adds the changes of a list whose items are identified by their ``merge_key``."""
    known, wanted, there = ({_mark(item, merge_key): item for item in items} for items in values)
    changes: list[Object] = []
    for mark, item in wanted.items():
        if mark not in there:
            changes.append(item)
            continue
        change = _retaining(_object(known.get(mark) or {}, item, there[mark], schema), item, there[mark], ways)
        if change:
            changes.append({**change, merge_key: item[merge_key]})
    changes += [{"$patch": "delete", merge_key: item[merge_key]} for mark, item in known.items() if mark not in wanted]
    if wanted and (changes or list(there) != list(wanted)):
        patch[f"{ELEMENT_ORDER}{key}"] = [{merge_key: item[merge_key]} for item in wanted.values()]
    if changes:
        patch[key] = changes


def _mark(item: object, merge_key: str) -> bytes:
    """Raises ValueError for an item without the key."""
    if not isinstance(item, dict) or merge_key not in item:
        raise ValueError(f"map: {golang.value_text(item)} does not contain declared merge key: {merge_key}")
    return orjson.dumps(item[merge_key])


def _merged_set(patch: Object, key: str, old: list[Tree], new: list[Tree], now: list[Tree]) -> None:
    """Adds the changes of a list of scalars without duplicates."""
    before, wanted, there = ({orjson.dumps(value): value for value in values} for values in (old, new, now))
    added = [value for mark, value in wanted.items() if mark not in there]
    removed = [value for mark, value in before.items() if mark not in wanted]
    if wanted and (added or removed or list(there) != list(wanted)):
        patch[f"{ELEMENT_ORDER}{key}"] = list(wanted.values())
    if added:
        patch[key] = added
    if removed:
        patch[f"$deleteFromPrimitiveList/{key}"] = removed


def _without_orders(changes: Object) -> Object:
    """Without the orders of lists, and without what has nothing else."""
    kept: Object = {}
    for key, value in changes.items():
        if key.startswith(ELEMENT_ORDER):
            continue
        if isinstance(value, dict) and value:
            value = _without_orders(value)
            if not value:
                continue
        elif isinstance(value, list) and f"{ELEMENT_ORDER}{key}" in changes:
            value = [_without_orders(item) if isinstance(item, dict) else item for item in value]
        kept[key] = value
    return kept


def _conflict(left: Tree, right: Tree, schema: Schema, strategies: str = "", merge_key: str = "") -> bool:
    """Whether two patches of a value exclude each other (upstream: MergingMapsHaveConflicts).  Raises ValueError."""
    ways = strategies.split(",")
    if isinstance(left, dict) and isinstance(right, dict):
        if left.get("$patch", _ABSENT) != right.get("$patch", _ABSENT):
            return True
        both = left.keys() & right.keys() - {"$patch", "$retainKeys"}
        return "replace" not in ways and any(_conflict(left[key], right[key], *schema.field(key)) for key in both)
    if not isinstance(left, list) or not isinstance(right, list):
        return not _same(left, right)
    if "merge" in ways and not isinstance((left or right or [None])[0], dict):
        return False
    if "merge" in ways:
        known = {_mark(item, merge_key): item for item in right}
        marks = ((_mark(item, merge_key), item) for item in left)
        return any(mark in known and _conflict(item, known[mark], schema) for mark, item in marks)
    if len(left) != len(right):
        return True
    if not any(isinstance(item, dict) for item in left):
        left, right = sorted(left, key=_sorted), sorted(right, key=_sorted)
    return any(_conflict(one, other, schema) for one, other in zip(left, right, strict=True))


def _sorted(value: Tree) -> bytes:
    return orjson.dumps(value)
