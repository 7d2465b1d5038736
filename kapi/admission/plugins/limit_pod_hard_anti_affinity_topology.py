"""LimitPodHardAntiAffinityTopology: required anti-affinity only between nodes."""

from __future__ import annotations

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
