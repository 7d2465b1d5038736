"""Which pods use a claim, and whether the claim's finalizer has to be added or may be removed."""

from __future__ import annotations

from collections.abc import Iterable

from kapi.controllers import finalizers
from kapi.machinery.each import elements
from kapi.machinery.tree import Object

FINALIZER = "kubernetes.io/pvc-protection"


def due(claim: Object) -> bool:
    """Whether the finalizer has to be removed (the claim is being deleted) or added (it is not)."""
    return bool(claim["metadata"].get("deletionTimestamp")) == finalizers.has(claim, FINALIZER)


def used(claim: Object, pods: Iterable[Object]) -> bool:
    return any(uses(pod, claim) for pod in pods)


def uses(pod: Object, claim: Object) -> bool:
    """Only pods on a node use it: the kubelet starts none with a claim that is being deleted."""
    spec, name = pod.get("spec") or {}, claim["metadata"]["name"]
    if not spec.get("nodeName"):
        return False
    for volume in elements(spec, "volumes"):
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == name:
            return True
        if volume.get("ephemeral") is not None and not is_shut_down(pod):
            if f"{pod['metadata']['name']}-{volume['name']}" == name and _controlled(claim, pod):
                return True
    return False


def is_shut_down(pod: Object) -> bool:
    """The kubelet has ended it and asked for its removal."""
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") == 0


def _controlled(claim: Object, pod: Object) -> bool:
    references = claim["metadata"].get("ownerReferences") or []
    return any(one.get("controller") and one.get("uid") == pod["metadata"]["uid"] for one in references)
