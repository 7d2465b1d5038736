"""Functions about pods for several plugins: whether a request is for a pod, its containers, names of its secrets."""

from __future__ import annotations

from collections.abc import Iterator

from kapi.admission.interface import Attributes
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object

PODS = GroupResource("", "pods")


def is_pod(attributes: Attributes) -> bool:
    """Whether a request is for a pod itself, not for one of its subresources."""
    resource = attributes.resource
    return resource.resource == "pods" and not resource.group and not attributes.subresource


def containers(spec: Object) -> Iterator[tuple[str, int, Object]]:
    """(field, index, container) of every container: init, regular, ephemeral."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(elements(spec, field)):
            yield field, i, container


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
