"""Plugins of the topology of nodes: LimitPodHardAntiAffinityTopology and PodTopologyLabels (KEP 4742).

Required anti-affinity is only between nodes.  Pods carry the zone and region of the node they are bound to.
"""

from __future__ import annotations

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.admission.pods import PODS, is_pod
from kapi.machinery import tree
from kapi.machinery.status import forbidden

_HOSTNAME = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology(Plugin):
    operations = frozenset({CREATE, UPDATE})

    def validate(self, attributes: Attributes) -> None:
        if not is_pod(attributes) or attributes.obj is None:
            return
        terms = tree.dig(
            attributes.obj, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
        )
        for term in terms or ():
            key = term.get("topologyKey", "")
            if key != _HOSTNAME:
                why = (
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} "
                    f"but only key {_HOSTNAME} is allowed"
                )
                raise forbidden(PODS, tree.dig(attributes.obj, "metadata", "name") or "", why)


_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(InitializedPlugin):
    gate = "PodTopologyLabelsAdmission"
    operations = frozenset({CREATE})
    resources = frozenset({"pods"})

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
