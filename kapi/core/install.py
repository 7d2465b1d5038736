"""Which server of the chain serves which built-in resource, and its installation (upstream: ``controlplane`` InstallAPIs)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kapi.endpoints.dispatch import ResourceTable
from kapi.registry.registry import Registry
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.resources.previews import PREVIEWS

AGGREGATOR_GROUP = "apiregistration.k8s.io"
EXTENSIONS_GROUP = "apiextensions.k8s.io"


def core_rows() -> list[Resource]:
    """All that is neither the aggregator's nor the extensions server's; versions that are off by default too."""
    return [row for row in (*BUILT_IN, *PREVIEWS) if row.group not in (AGGREGATOR_GROUP, EXTENSIONS_GROUP)]


def rows_of(group: str) -> list[Resource]:
    return [row for row in BUILT_IN if row.group == group]


def register(registry: Registry, rows: Iterable[Resource]) -> None:
    """Makes the registry know all rows that are stored."""
    for row in rows:
        if not row.handler:
            registry.add(_stored(row))


def install(table: ResourceTable, registry: Registry, rows: Iterable[Resource]) -> None:
    """Serves the rows from the registry; kinds that are not stored are answered by their handlers alone."""
    for row in rows:
        table.add(row, None if row.handler else registry.add(_stored(row)))


def _stored(row: Resource) -> Resource:
    """The row of the version that the objects are kept in, be that served or not."""
    if row.to_storage is None or row.schema is not None:
        return row
    rows = (*BUILT_IN, *PREVIEWS)
    return next(one for one in rows if one.to_storage is None and one.storage_resource == row.storage_resource)


def served(
    rows: Iterable[Resource], enabled: Callable[[str, str, str], bool], features: Mapping[str, bool]
) -> list[Resource]:
    """Those whose version is on, and whose feature gates are."""
    return [
        row for row in rows if enabled(row.group, row.version, row.plural) and all(features[gate] for gate in row.gates)
    ]
