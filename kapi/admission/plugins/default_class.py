"""DefaultIngressClass and DefaultStorageClass: an ingress or a claim without class gets the newest default class."""

from __future__ import annotations

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, Attributes
from kapi.machinery.tree import Object
from kapi.resources.shared.persistent_volumes import BETA_CLASS

_OLD = "kubernetes.io/ingress.class"
_DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"
_DEFAULT_STORAGE_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class DefaultIngressClass(InitializedPlugin):
    operations = frozenset({CREATE})
    resources = frozenset({"ingresses"})

    def admit(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.resource != "ingresses" or resource.group != "networking.k8s.io" or attributes.subresource:
            return
        assert attributes.obj is not None
        spec = attributes.obj.setdefault("spec", {})
        if spec.get("ingressClassName") is not None or _OLD in (attributes.obj["metadata"].get("annotations") or {}):
            return
        newest = newest_default(
            self.initializer.lister("networking.k8s.io", "ingressclasses").list(), _DEFAULT_INGRESS_CLASS
        )
        if newest:
            spec["ingressClassName"] = newest


def newest_default(classes: list[Object], *annotations: str) -> str:
    """The name of the newest class marked as default, the first by name among equally old ones; "" without any."""
    marked = [
        obj["metadata"]
        for obj in classes
        if any((obj["metadata"].get("annotations") or {}).get(key) == "true" for key in annotations)
    ]
    marked.sort(key=lambda metadata: metadata["name"])
    marked.sort(key=lambda metadata: metadata.get("creationTimestamp") or "", reverse=True)
    return marked[0]["name"] if marked else ""


class DefaultStorageClass(InitializedPlugin):
    operations = frozenset({CREATE})
    resources = frozenset({"persistentvolumeclaims"})

    def admit(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.resource != "persistentvolumeclaims" or resource.group or attributes.subresource:
            return
        assert attributes.obj is not None
        spec = attributes.obj.setdefault("spec", {})
        if (
            BETA_CLASS in (attributes.obj["metadata"].get("annotations") or {})
            or spec.get("storageClassName") is not None
        ):
            return
        newest = newest_default(
            self.initializer.lister("storage.k8s.io", "storageclasses").list(), *_DEFAULT_STORAGE_CLASS
        )
        if newest:
            spec["storageClassName"] = newest
