"""Drops fields whose feature gate is off, unless they are stored already (upstream: ``pkg/api/pod`` DropDisabledPodFields)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.shared.features import gate
from kapi.resources.shared.security import every_container


def _sources(spec: Object) -> Iterator[Object]:
    for volume in elements(spec, "volumes"):
        yield from (volume.get("projected") or {}).get("sources") or ()


def _lifecycles(spec: Object) -> Iterator[Object]:
    for container in elements(every_container(spec)):
        if container.get("lifecycle") is not None:
            yield container["lifecycle"]


def _value_sources(spec: Object) -> Iterator[Object]:
    for container in elements(every_container(spec)):
        for variable in elements(container, "env"):
            if variable.get("valueFrom") is not None:
                yield variable["valueFrom"]


#: gate -> (owners of the field, name of the field)
_FIELDS: tuple[tuple[str, Callable[[Object], Iterator[Object]], str], ...] = (
    ("ContainerStopSignals", _lifecycles, "stopSignal"),
    ("ClusterTrustBundleProjection", _sources, "clusterTrustBundle"),
    ("PodCertificateRequest", _sources, "podCertificate"),
    ("GenericWorkload", lambda spec: iter((spec,)), "schedulingGroup"),
    ("EnvFiles", _value_sources, "fileKeyRef"),
    ("HostnameOverride", lambda spec: iter((spec,)), "hostnameOverride"),
    ("PodLevelResources", lambda spec: iter((spec,)), "resources"),
    ("ContainerRestartRules", every_container, "restartPolicyRules"),
)


def drop_disabled_fields(spec: Object, old: Object | None, ctx: object) -> None:
    """Changes ``spec`` in place; ``old`` is the stored spec on an update."""
    for name, owners, field in _FIELDS:
        if gate(ctx, name):
            continue
        if old is not None and any(owner.get(field) is not None for owner in elements(owners(old))):
            continue
        if field == "stopSignal":
            _drop_stop_signals(spec)
            continue
        for owner in elements(owners(spec)):
            owner.pop(field, None)


def _drop_stop_signals(spec: Object) -> None:
    """Drops the stop signals, and lifecycles that are empty then."""
    for container in elements(every_container(spec)):
        lifecycle = container.get("lifecycle")
        if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
            del container["lifecycle"]
