"""DefaultStorageClass: a claim without class gets the newest default class."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, Plugin
from kapi.admission.plugins.default_ingress_class import newest_default
from kapi.machinery.tree import Object

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class DefaultStorageClass(Plugin):
    operations = frozenset({CREATE})
    resources = frozenset({"persistentvolumeclaims"})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer

    def admit(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.resource != "persistentvolumeclaims" or resource.group or attributes.subresource:
            return
        assert attributes.obj is not None
        spec = attributes.obj.setdefault("spec", {})
        if (
            _BETA_CLASS in (attributes.obj["metadata"].get("annotations") or {})
            or spec.get("storageClassName") is not None
        ):
            return
        newest = newest_default(self.initializer.lister("storage.k8s.io", "storageclasses").list(), *_DEFAULT)
        if newest:
            spec["storageClassName"] = newest


def claim_class(claim: Object) -> str:
    """The class of a claim, by annotation or field."""
    annotations = claim["metadata"].get("annotations") or {}
    if _BETA_CLASS in annotations:
        return str(annotations[_BETA_CLASS])
    return (claim.get("spec") or {}).get("storageClassName") or ""


def make(initializer: Initializer, configuration: object) -> Plugin:
    return DefaultStorageClass(initializer)
