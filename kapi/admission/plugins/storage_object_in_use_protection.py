"""StorageObjectInUseProtection: volumes and claims get the finalizer that keeps them while they are used."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, Plugin

_FINALIZERS = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    operations = frozenset({CREATE})
    resources = frozenset(plural for _, plural in _FINALIZERS)

    def admit(self, attributes: Attributes) -> None:
        finalizer = _FINALIZERS.get((attributes.resource.group, attributes.resource.resource))
        if finalizer is None or attributes.subresource or attributes.obj is None:
            return
        metadata = attributes.obj["metadata"]
        present = metadata.get("finalizers") or []
        if finalizer not in present:
            metadata["finalizers"] = [*present, finalizer]


def make(initializer: Initializer, configuration: object) -> Plugin:
    return StorageObjectInUseProtection()
