"""PodTopologyLabels: pods carry the zone and region of the node they are bound to (KEP 4742)."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, Plugin

_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(Plugin):
    gate = "PodTopologyLabelsAdmission"
    operations = frozenset({CREATE})
    resources = frozenset({"pods"})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer

    def admit(self, attributes: Attributes) -> None:
        if attributes.resource.resource != "pods" or attributes.resource.group or attributes.obj is None:
            return
        if attributes.subresource == "":
            node = (attributes.obj.get("spec") or {}).get("nodeName") or ""
        elif attributes.subresource == "binding":
            target = attributes.obj.get("target") or {}
            node = target.get("name", "") if target.get("kind") == "Node" else ""
        else:
            return
        found = self.initializer.lister("", "nodes").get("", node) if node else None
        labels = (found or {}).get("metadata", {}).get("labels") or {}
        copied = {key: labels[key] for key in _LABELS if key in labels}
        if copied:
            metadata = attributes.obj.setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), **copied}
