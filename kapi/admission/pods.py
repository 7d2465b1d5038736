"""Functions about pods for several plugins: whether a request is for a pod, and its containers."""

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
