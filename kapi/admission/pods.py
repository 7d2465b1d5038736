"""What several plugins need of pods: which requests are about pods, containers, sums of resources."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from kapi.admission.interface import Attributes
from kapi.machinery import quantities
from kapi.machinery.each import elements, entries
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object

PODS = GroupResource("", "pods")


def is_pod(attributes: Attributes) -> bool:
    """A request about a pod itself, not about one of its subresources."""
    resource = attributes.resource
    return resource.resource == "pods" and not resource.group and not attributes.subresource


def containers(spec: Object) -> Iterator[tuple[str, int, Object]]:
    """(field, index, container) of every container: init, regular, ephemeral."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(elements(spec, field)):
            yield field, i, container


def add_lists(into: dict[str, str], more: dict[str, str] | None) -> None:
    for name, quantity in entries(more):
        into[name] = quantities.add(into[name], quantity) if name in into else quantity


def max_lists(into: dict[str, str], more: dict[str, str] | None) -> None:
    for name, quantity in entries(more):
        if name not in into or quantities.compare(quantity, into[name]) > 0:
            into[name] = quantity


def pod_resources(
    spec: Object, kind: str, *, huge_pages: bool = True, overhead: bool = False, status: Object | None = None
) -> dict[str, str]:
    """What a pod asks for in all (``kind``: requests or limits), with init containers, sidecars and pod-level values.

    ``status``, if given, says what running containers have: a container counts for the most of what it asks and has.
    """
    having = _having(status, kind) if status else {}

    def of(container: Object) -> dict[str, str]:
        asked: dict[str, str] = (container.get("resources") or {}).get(kind) or {}
        return having[container.get("name", "")](asked) if container.get("name", "") in having else asked

    total: dict[str, str] = {}
    for container in elements(spec, "containers"):
        add_lists(total, of(container))
    sidecars: dict[str, str] = {}
    start: dict[str, str] = {}
    for container in elements(spec, "initContainers"):
        own = (container.get("resources") or {}).get(kind) or {}
        if container.get("restartPolicy") == "Always":
            own = of(container)
            add_lists(total, own)
            add_lists(sidecars, own)
            max_lists(start, sidecars)
        else:
            needed = dict(own)
            add_lists(needed, sidecars)
            max_lists(start, needed)
    max_lists(total, start)
    for name, quantity in entries(spec, "resources", kind):
        if name in ("cpu", "memory") or huge_pages and name.startswith("hugepages-"):
            total[name] = quantity
    if overhead:
        for name, quantity in entries(spec, "overhead"):
            if kind == "requests" or name in total and quantities.compare(total[name], "0") != 0:
                total[name] = quantities.add(total[name], quantity) if name in total else quantity
    return total


def _having(status: Object, kind: str) -> dict[str, Callable[[dict[str, str]], dict[str, str]]]:
    """By container that runs: what it counts for, given what it asks for."""
    pending: Object = next((c for c in elements(status, "conditions") if c.get("type") == "PodResizePending"), {})
    infeasible = pending.get("reason") == "Infeasible"  # what is asked for will not come
    found: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {}
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in elements(status, field):
            if container.get("resources") is None:
                continue
            has: dict[str, str] = {}
            max_lists(has, container["resources"].get(kind))
            if kind == "requests":
                max_lists(has, container.get("allocatedResources"))
            found[container.get("name", "")] = functools.partial(_most, has, infeasible)
    return found


def _most(has: dict[str, str], infeasible: bool, asked: dict[str, str]) -> dict[str, str]:
    most = dict(has)
    if not infeasible:
        max_lists(most, asked)
    return most


def secret_names(spec: Object) -> Iterator[str]:
    """Names of all secrets that a pod refers to, in upstream's order."""
    for reference in elements(spec, "imagePullSecrets"):
        if reference.get("name"):
            yield reference["name"]
    for _, _, container in containers(spec):
        for source in elements(container, "envFrom"):
            if source.get("secretRef"):
                yield source["secretRef"].get("name", "")
        for variable in elements(container, "env"):
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference:
                yield reference.get("name", "")
    for volume in elements(spec, "volumes"):
        yield from _volume_secrets(volume)


def _volume_secrets(volume: Object) -> Iterator[str]:
    if volume.get("azureFile", {}).get("secretName"):
        yield volume["azureFile"]["secretName"]
    for field in ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"):
        reference = (volume.get(field) or {}).get("secretRef")
        if reference and reference.get("name"):
            yield reference["name"]
    if volume.get("projected"):
        for source in elements(volume["projected"], "sources"):
            if source.get("secret"):
                yield source["secret"].get("name", "")
    if volume.get("secret"):
        yield volume["secret"].get("secretName", "")
    reference = (volume.get("csi") or {}).get("nodePublishSecretRef")
    if reference and reference.get("name"):
        yield reference["name"]
