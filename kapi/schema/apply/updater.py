"""Ownership of fields after a write or a change of the schema, and the result of an apply.

Upstream: structured-merge-diff ``merge.Updater``, ``typed/reconcile_schema.go``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object, Tree, equal
from kapi.schema.apply import comparing, fieldset, typed
from kapi.schema.apply.conflict import Conflict, Conflicts, Manager
from kapi.schema.apply.fieldset import Set
from kapi.schema.apply.shape import DEDUCED, LIST, MAP, Shape
from kapi.schema.apply.typed import MEMBER


class Owned(msgspec.Struct):
    """The fields of one manager, in the API version of its last write."""

    fields: Set
    api_version: str
    applied: bool


Managers = dict[Manager, Owned]


class Version(msgspec.Struct, frozen=True):
    """Another version of the type than the written one, in which managers may have entries."""

    shape: Shape
    from_hub: Callable[[Object], Object]  # converts from the written version to this one
    to_hub: Callable[[Object], Object]


class Updater(msgspec.Struct):
    """Works on objects of one version.  A write never owns fields of ``reset``."""

    shape: Shape
    api_version: str
    reset: Set
    version: Callable[[str], Version | None] = lambda api_version: None
    strict: bool = False  # every manager's version must exist, and the object must fit its schema

    def filtered(self, fields: Set) -> Set:
        return fieldset.difference(fields, self.reset, recursive=True) if self.reset else fields

    def compare(self, old: Object | None, new: Object | None) -> comparing.Comparison:
        return comparing.compare(self.shape, old, new).without(self.reset)

    def update(
        self, old: Object, new: Object, managers: Managers, difference: comparing.Comparison | None = None
    ) -> tuple[Set, Managers]:
        """(the fields that the write set, the other managers' remaining fields, the writer's former entry included).

        ``difference`` is ``compare(old, new)`` if the caller knows it.
        """
        managers = self.reconciled(old, managers)
        difference, managers = self._take(old, new, managers, None, True, difference)
        return self.filtered(difference.changed), managers

    def apply(
        self, live: Object, config: Object, managers: Managers, manager: Manager, force: bool
    ) -> tuple[Object | None, Managers]:
        """(the object with the configuration applied, or None if that changes nothing; the managers).

        Raises Conflicts, SchemaError.
        """
        managers = self.reconciled(live, managers)
        try:
            merged = typed.merge(self.shape, live, config)
        except typed.SchemaError as error:
            raise typed.SchemaError([("", f"failed to merge config: {error}")]) from None
        last = managers.get(manager)
        fields = self.filtered(typed.field_set(self.shape, config))
        managers = {**managers, manager: Owned(fields, self.api_version, True)}
        merged = self._prune(merged, managers, last)
        _, managers = self._take(live, merged, managers, manager, force)
        return (None if equal(merged, live) else merged), managers

    # -- parts ----------------------------------------------------------------------------------------------------

    def _take(
        self,
        old: Object,
        new: Object,
        managers: Managers,
        writer: Manager | None,
        force: bool,
        own: comparing.Comparison | None = None,
    ) -> tuple[comparing.Comparison, Managers]:
        """Removes changed and removed fields from all managers but the writer.  Raises Conflicts without ``force``."""
        own = own or self.compare(old, new)
        differences: dict[str, tuple[Set, Set]] = {self.api_version: (own.changed, own.removed)}
        left: Managers = {}
        conflicts: list[Conflict] = []
        for manager, owned in entries(managers):
            if manager == writer:
                if owned.fields:
                    left[manager] = owned
                continue
            difference = differences.get(owned.api_version)
            if difference is None:
                version = self.version(owned.api_version)
                if version is None:
                    continue  # a version that is not served any more
                converted = version.from_hub(new)
                if self.strict:
                    typed.validate(version.shape, converted, allow_duplicates=True)
                compared = comparing.compare(version.shape, version.from_hub(old), converted).without(self.reset)
                difference = differences[owned.api_version] = (compared.changed, compared.removed)
            fields = owned.fields
            changed, removed = difference
            if changed:
                taken = fieldset.intersection(fields, changed)
                if taken:
                    if not force:
                        conflicts.extend(Conflict(manager, path) for path in fieldset.walk(taken))
                    fields = fieldset.difference(fields, taken)
            if removed:
                fields = fieldset.difference(fields, removed)
            if fields:
                left[manager] = owned if fields is owned.fields else replace(owned, fields=fields)
        if conflicts:
            raise Conflicts(conflicts)
        return own, left

    def reconciled(self, live: Object, managers: Managers) -> Managers:
        """The managers without entries of removed versions, and with lists and maps that became atomic as a whole."""
        result: Managers = {}
        fitting: set[str] = set()  # versions that the object is known to fit
        for manager, owned in entries(managers):
            shape = self._shape(owned.api_version)
            if shape is None:
                if self.strict:
                    text = f"request to convert CR to an invalid group/version: {owned.api_version}"
                    raise typed.SchemaError([("", text)])
                continue
            if self.strict and owned.api_version != self.api_version and owned.api_version not in fitting:
                typed.validate(shape, self._from_hub(owned.api_version, live), allow_duplicates=True)
                fitting.add(owned.api_version)
            fields = reconcile(shape, owned.fields)
            result[manager] = owned if fields is owned.fields else replace(owned, fields=fields)
        return result

    def _shape(self, api_version: str) -> Shape | None:
        if api_version == self.api_version:
            return self.shape
        version = self.version(api_version)
        return None if version is None else version.shape

    def _from_hub(self, api_version: str, obj: Tree) -> Tree:
        version = None if api_version == self.api_version else self.version(api_version)
        return obj if version is None or obj is None else version.from_hub(obj)

    def _to_hub(self, api_version: str, obj: Tree) -> Tree:
        version = None if api_version == self.api_version else self.version(api_version)
        return obj if version is None or obj is None else version.to_hub(obj)

    def _prune(self, merged: Object, managers: Managers, last: Owned | None) -> Object:
        """Removes fields that the applier's last configuration had and this one has not, unless another manager owns them."""
        if last is None or not last.fields:
            return merged
        version = last.api_version
        shape = self._shape(version)
        if shape is None:
            return merged
        converted = self._from_hub(version, merged)
        pruned = typed.remove(shape, converted, typed.with_named_fields(shape, last.fields))
        pruned = self._add_back_owned(converted, pruned, version, managers)
        # fields without an owner stay unless the applier's last configuration had them
        gone = fieldset.difference(_named(shape, converted), _named(shape, pruned))
        gone = fieldset.intersection(gone, typed.with_named_fields(shape, last.fields))
        result: Object = self._to_hub(version, typed.remove(shape, converted, gone))
        return result

    def _add_back_owned(self, merged: object, pruned: object, pruned_version: str, managers: Managers) -> Tree:
        by_version: dict[str, list[Set]] = {pruned_version: []}
        for owned in elements(managers.values()):
            by_version.setdefault(owned.api_version, []).append(owned.fields)
        for version, sets in entries(by_version):
            fields = fieldset.union_all(sets)
            shape = self._shape(version)
            if shape is None or (not fields and version == pruned_version and len(by_version) > 1):
                continue
            here = self._between(pruned_version, version, merged)
            left = self._between(pruned_version, version, pruned)
            keep = fieldset.union(_named(shape, left), typed.with_named_fields(shape, fields))
            left = typed.remove(shape, here, fieldset.difference(_named(shape, here), keep))
            pruned = self._between(version, pruned_version, left)
        return pruned

    def _between(self, source: str, target: str, obj: object) -> Tree:
        return obj if source == target else self._from_hub(target, self._to_hub(source, obj))


def _named(shape: Shape, value: object) -> Set:
    return typed.with_named_fields(shape, typed.field_set(shape, value))


def reconcile(shape: Shape, fields: Set) -> Set:
    """The set under the current schema: a list or map that has become atomic is owned as a whole."""
    changed = _reconcile(shape, fields)
    return fields if changed is None else changed


def _reconcile(shape: Shape, fields: Set) -> Set | None:
    """The new set of children, or None when nothing changes."""
    result: Set | None = None
    for element, node in entries(fields):
        if not node:  # a member alone, as "." is
            continue
        if shape.first == MAP:
            child = shape.child(element[2:]) if element[0] == "f" else shape.elem
        else:
            child = shape.item if shape.is_list else None
        if child is None or child is DEDUCED:
            continue
        if child.first == MAP:
            collapse = child.map_atomic and not (child.elem is DEDUCED and not child.type_has_fields)
        elif child.first == LIST:
            collapse = child.list_atomic
        else:
            continue
        below = MEMBER if collapse else _reconcile(child, node)
        if below is not None and below is not node:
            if result is None:
                result = dict(fields)
            if collapse:
                result[element] = MEMBER
            else:
                result[element] = below
    return result
