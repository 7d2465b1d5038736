"""Plugins of volumes and claims: the growth of claims, and the finalizer that keeps volumes and claims while they are used."""

from __future__ import annotations

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin, denied
from kapi.machinery import quantities, tree
from kapi.resources.shared.persistent_volumes import storage_class

_FINALIZERS = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class PersistentVolumeClaimResize(InitializedPlugin):
    """Only bound claims of classes that allow it may grow."""

    operations = frozenset({UPDATE})
    resources = frozenset({"persistentvolumeclaims"})

    def validate(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.resource != "persistentvolumeclaims" or resource.group or attributes.subresource:
            return
        new, old = attributes.obj, attributes.old
        if new is None or old is None:
            return
        size = ("spec", "resources", "requests", "storage")
        if quantities.compare(tree.dig(new, *size) or "0", tree.dig(old, *size) or "0") <= 0:
            return
        if tree.dig(old, "status", "phase") != "Bound":
            raise denied(attributes, "Only bound persistent volume claims can be expanded")
        name = storage_class(new)
        found = self.initializer.lister("storage.k8s.io", "storageclasses").get("", name) if name else None
        if name != storage_class(old) or found is None or not found.get("allowVolumeExpansion"):
            raise denied(
                attributes,
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",  # noqa: E501
            )


class StorageObjectInUseProtection(Plugin):
    """Volumes and claims get the finalizer that keeps them while they are used."""

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
