"""Which server of the chain serves which built-in resource, and its installation (upstream: ``controlplane`` InstallAPIs)."""

from __future__ import annotations

from collections.abc import Iterable

from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.gvk import GroupResource
from kapi.registry.registry import Registry
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.resources.previews import PREVIEWS

AGGREGATOR_GROUP = "apiregistration.k8s.io"
EXTENSIONS_GROUP = "apiextensions.k8s.io"


def core_rows() -> list[Resource]:
    """The rows of the core server, including versions that are off by default."""
    return [row for row in (*BUILT_IN, *PREVIEWS) if row.group not in (AGGREGATOR_GROUP, EXTENSIONS_GROUP)]


def rows_of(group: str) -> list[Resource]:
    return [row for row in BUILT_IN if row.group == group]


def register(registry: Registry, rows: Iterable[Resource]) -> None:
    """Adds all stored rows to the registry."""
    for row in rows:
        if not row.handler:
            registry.add(_stored(row))


def switched_off(registry: Registry) -> dict[GroupResource, bool]:
    """The stored built-in resources that were not added to a registry, and whether they are on by default."""
    usual = {row.storage_resource for row in BUILT_IN if not row.handler}
    every = usual | {row.storage_resource for row in PREVIEWS}
    return {resource: resource in usual for resource in every if resource not in registry.stores}


def install(table: ResourceTable, registry: Registry, rows: Iterable[Resource]) -> None:
    """Adds the rows to the table of a server; those with a handler are not stored."""
    for row in rows:
        table.add(row, None if row.handler else registry.add(_stored(row)))


def _stored(row: Resource) -> Resource:
    """The row of the storage version, whether that version is served or not."""
    if row.to_storage is None or row.schema is not None:
        return row
    rows = (*BUILT_IN, *PREVIEWS)
    return next(one for one in rows if one.to_storage is None and one.storage_resource == row.storage_resource)
