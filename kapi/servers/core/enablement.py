"""Which built-in resources are served: by flags, feature gates and the emulated release.

Upstream: apiserver ``server/deleted_kinds.go``, ``server/resourceconfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kapi.endpoints.discovery.groups import version_rank
from kapi.machinery.gvk import GroupVersion, GroupVersionResource
from kapi.machinery.lifecycles import RELEASE, Lifecycle, Release, lifecycle
from kapi.resources.definition import Resource
from kapi.resources.shared.features import enabled

_ADVICE = "Consider setting --runtime-config-emulation-forward-compatible=true"


@dataclass(frozen=True, slots=True)
class Enablement:
    """The settings of the flags for served versions."""

    enabled: Callable[[str, str, str], bool]  # by group, version and plural
    #: the setting for exactly this resource, or with "" for this group version; None when there is none
    setting: Callable[[str, str, str], bool | None]
    features: Mapping[str, bool]
    release: Release = RELEASE  # the emulated release
    forward: bool = False  # newer versions of what is served are served, too, whatever the release
    forward_by_name: bool = False  # newer versions that are enabled by name are served

    def by_name(self, row: Resource) -> bool:
        return self.setting(row.group, row.version, row.plural) or self.setting(row.group, row.version, "") or False

    def refused(self, row: Resource) -> bool:
        settings = (self.setting(row.group, row.version, row.plural), self.setting(row.group, row.version, ""))
        return next((not on for on in settings if on is not None), False)


def served(rows: Sequence[Resource], flags: Enablement) -> list[Resource]:
    """The rows that are enabled and that the emulated release has, in the same order.

    Raises ValueError for a resource that is enabled by name, and newer than the release.
    """
    older: dict[tuple[str, str], bool] = {}  # resources with an enabled older version that is no alpha -> it is served
    kept: set[GroupVersionResource] = set()
    newer: set[GroupVersion] = set()
    for row in sorted(rows, key=lambda row: version_rank(row.version)):
        resource = row.group, row.plural
        follows = flags.forward and resource in older and not flags.refused(row)
        if not (follows or flags.enabled(row.group, row.version, row.plural)):
            continue
        if not all(flags.features[gate] for gate in row.gates):
            continue
        found = lifecycle(row.group, row.version, row.kind)
        is_served = found is None or not found.gone(flags.release) and _begun(row, found, flags, older.get(resource))
        if is_served:
            kept.add(row.group_version_resource)
        elif found is not None and found.introduced > flags.release:
            newer.add(row.group_version)
        if "alpha" not in row.version:
            older[resource] = is_served or older.get(resource, False)
    for missing in sorted(newer - {GroupVersion(one.group, one.version) for one in kept}):
        if flags.setting(missing.group, missing.version, ""):
            raise ValueError(
                f"cannot enable version {missing} in runtime-config because all the resources have been introduced after "
                f"the current version {flags.release}. {_ADVICE}"
            )
    shown = [row for row in rows if row.group_version_resource in kept]
    if not enabled(flags.features, "StorageVersionHash"):
        shown = [replace(row, storage_version_hash="") for row in shown]
    return shown


def _begun(row: Resource, found: Lifecycle, flags: Enablement, older_served: bool | None) -> bool:
    """Whether the kind was introduced, or is served before that.  Raises ValueError."""
    if found.introduced <= flags.release or (flags.forward and older_served):
        return True
    if flags.forward_by_name and flags.by_name(row):
        return True
    if flags.setting(row.group, row.version, row.plural):
        raise ValueError(
            f"cannot enable resource {row.group}/{row.version}, Resource={row.plural} in runtime-config because it is "
            f"introduced at {found.introduced} after the current version {flags.release}. {_ADVICE}"
        )
    return False
