"""The versions in which a kind is served, and conversion to the version that a webhook or policy asks for."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kapi.admission.interface import Attributes
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.tree import Object
from kapi.resources.definition import OtherVersions, Resource


@functools.cache
def _rows() -> tuple[Resource, ...]:
    from kapi.resources.catalogue import BUILT_IN
    from kapi.resources.previews import PREVIEWS

    return (*BUILT_IN, *PREVIEWS)


@functools.cache
def row_of(kind: GroupVersionKind) -> Resource | None:
    """The catalogue row of a built-in kind."""
    for row in _rows():
        if (row.group, row.version, row.kind) == kind:
            return row
    return None


@functools.cache
def equivalent_resources(resource: GroupVersionResource) -> tuple[tuple[GroupVersionResource, GroupVersionKind], ...]:
    """Other (resource, kind) of the same objects, served or not."""
    rows = _rows()
    own = next((r for r in rows if (r.group, r.version, r.plural) == resource), None)
    if own is None:
        return ()

    return tuple(
        (r.group_version_resource, r.group_version_kind)
        for r in rows
        if r is not own and r.storage_resource == own.storage_resource
    )


def equivalents(
    attributes: Attributes, serves: Callable[[str, str, str], bool]
) -> tuple[tuple[GroupVersionResource, GroupVersionKind], ...]:
    """Other (resource, kind) under which the resource of a request is served."""
    row = attributes.custom_resource
    if row is None:
        return tuple(other for other in equivalent_resources(attributes.resource) if serves(*other[0]))
    names = (api_version.rpartition("/")[::2] for api_version in _other_versions(row))
    return tuple(
        (GroupVersionResource(group, version, row.plural), GroupVersionKind(group, version, row.kind))
        for group, version in names
    )


def _other_versions(row: Resource) -> OtherVersions:
    return {} if row.other_versions is None else row.other_versions()


def in_version(obj: Object | None, kind: GroupVersionKind, attributes: Attributes | None = None) -> Object | None:
    """An object as it passes through the registry in the version of a kind; the same object when it is in that already.

    ``attributes`` are of the request that the object belongs to, if it does: they know custom resources.
    """
    if obj is None or not kind.kind:
        return obj
    custom = None if attributes is None else attributes.custom_resource
    if custom is not None:
        other = _other_versions(custom).get(str(kind.group_version)) if kind.kind == custom.kind else None
        return obj if other is None else other[1](obj)
    api_version = str(kind.group_version)
    row = row_of(kind)
    if row is not None and row.from_storage is not None:
        return row.from_storage(obj)
    if obj.get("apiVersion") == api_version and obj.get("kind") == kind.kind:
        return obj
    return {**obj, "apiVersion": api_version, "kind": kind.kind}


def to_storage(obj: Object, kind: GroupVersionKind, stored: Object, attributes: Attributes | None = None) -> Object:
    """The inverse of ``in_version``; ``stored`` has the version in which objects pass through the registry."""
    custom = None if attributes is None else attributes.custom_resource
    if custom is not None:
        other = _other_versions(custom).get(str(kind.group_version)) if kind.kind == custom.kind else None
        back: Object = obj if other is None else other[2](obj)
        if kind.kind == custom.kind:
            custom.strategy.default_changed(back)
            attributes.unpruned = True  # type: ignore[union-attr]
        return back
    row = row_of(kind)
    if row is not None and row.to_storage is not None:
        return row.to_storage(obj)
    return {**obj, "apiVersion": stored.get("apiVersion"), "kind": stored.get("kind")}
