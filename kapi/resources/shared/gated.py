"""Drops fields whose feature gate is disabled, unless they are stored already (upstream: ``dropDisabledFields`` of strategies).

A type has a table of its fields with gates; the table of pod specs is here, since pods and all templates use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.shared.features import all_enabled, features_of, gate
from kapi.resources.shared.security import every_container

#: names to follow from an object to the owners of a field, and the field's name
_Place = tuple[tuple[tuple[str, ...], ...], str]


class Gated(NamedTuple):
    """Fields that are dropped while one of the gates is disabled; stored fields of ``in_use`` keep them too."""

    gates: tuple[str, ...]
    fields: tuple[_Place, ...]
    in_use: tuple[_Place, ...]


def gated(gates: str, *paths: str, also: Iterable[str] = (), kept: bool = True) -> Gated:
    """``gates`` are separated by spaces.  In a path ``*`` means each item or value, and ``|`` is between alternatives.

    ``also``: further paths that mean that the fields are in use.  Without ``kept`` stored fields are dropped too.
    """
    fields = tuple(map(_place, paths))
    return Gated(tuple(gates.split()), fields, (*fields, *map(_place, also)) if kept else ())


def _place(path: str) -> _Place:
    *owners, field = path.split(".")
    return tuple(tuple(part.split("|")) for part in owners), field


def _owners(node: Object, path: tuple[tuple[str, ...], ...]) -> list[Object]:
    found: list[Object] = [node]
    for names in path:
        if names == ("*",):
            found = [item for one in found for item in elements(one.values() if isinstance(one, dict) else one) if item]
        else:
            found = [value for one in elements(found) for name in names if (value := one.get(name))]
        if not found:
            break
    return found


def _has(obj: Object, places: Iterable[_Place]) -> bool:
    return any(owner.get(name) not in (None, []) for path, name in places for owner in elements(_owners(obj, path)))


def drop_disabled(table: Iterable[Gated], obj: Object, old: Object | None, ctx: object) -> None:
    """Changes ``obj`` in place; ``old`` is the stored one on an update."""
    features = features_of(ctx)
    for gates, fields, in_use in table:
        if all_enabled(features, gates) or (old is not None and _has(old, in_use)):
            continue
        for path, name in fields:
            for owner in elements(_owners(obj, path)):
                owner.pop(name, None)


_CONTAINERS = "containers|initContainers|ephemeralContainers.*"
_STOP_SIGNAL = gated("ContainerStopSignals", f"{_CONTAINERS}.lifecycle.stopSignal")
_POD_SPEC = (
    gated("ClusterTrustBundleProjection", "volumes.*.projected.sources.*.clusterTrustBundle"),
    gated("PodCertificateRequest", "volumes.*.projected.sources.*.podCertificate"),
    gated("GenericWorkload", "schedulingGroup"),
    gated("EnvFiles", f"{_CONTAINERS}.env.*.valueFrom.fileKeyRef"),
    gated("HostnameOverride", "hostnameOverride"),
    Gated(("PodLevelResources",), (_place("resources"),), (_place("resources.requests"), _place("resources.limits"))),
    gated("MatchLabelKeysInPodTopologySpread", "topologySpreadConstraints.*.matchLabelKeys"),
)


def drop_disabled_fields(spec: Object, old: Object | None, ctx: object) -> None:
    """Changes a pod's spec in place; ``old`` is the stored spec on an update."""
    if not gate(ctx, "ContainerStopSignals") and (old is None or not _has(old, _STOP_SIGNAL.in_use)):
        _drop_stop_signals(spec)
    if not gate(ctx, "ContainerRestartRules") and (old is None or not restart_rules_in_use(old)):
        _drop_restart_rules(spec)
    drop_disabled(_POD_SPEC, spec, old, ctx)


def _drop_stop_signals(spec: Object) -> None:
    """Drops the stop signals, and lifecycles that are empty then."""
    for container in elements(every_container(spec)):
        lifecycle = container.get("lifecycle")
        if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
            del container["lifecycle"]


def restart_rules_in_use(spec: Object) -> bool:
    """Whether containers have restart policies that are new with ``ContainerRestartRules``; sidecars are older."""
    return any(container.get("restartPolicy") is not None for container in elements(spec, "containers")) or any(
        container.get("restartPolicyRules") or container.get("restartPolicy") not in (None, "Always")
        for container in elements(spec, "initContainers")
    )


def _drop_restart_rules(spec: Object) -> None:
    for container in elements(every_container(spec)):
        container.pop("restartPolicyRules", None)
    for part in ("containers", "ephemeralContainers"):
        for container in elements(spec, part):
            container.pop("restartPolicy", None)
    for container in elements(spec, "initContainers"):
        if container.get("restartPolicy") != "Always":
            container.pop("restartPolicy", None)
