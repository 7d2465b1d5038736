"""Plugins for pod updates that need support by the node (upstream: ``podresize``, ``nodedeclaredfeatures``; KEPs 1287, 5328)."""

from __future__ import annotations

from collections.abc import Iterator

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import UPDATE, Attributes, denied
from kapi.admission.pods import PODS
from kapi.machinery import quantities, tree
from kapi.machinery.golang import quote
from kapi.machinery.pod_resources import pod_resources
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.resources.shared.rules import same

_OS = "kubernetes.io/os"


class _OfPodOnNode(InitializedPlugin):
    """The base of both plugins: checks updates of pods that have a node."""

    operations = frozenset({UPDATE})
    resources = frozenset({"pods"})
    subresources: frozenset[str]

    def validate(self, attributes: Attributes) -> None:
        pod, old = attributes.obj, attributes.old
        if attributes.resource.group_resource != PODS or attributes.subresource not in self.subresources:
            return
        if pod is None or old is None or not (node_name := tree.dig(pod, "spec", "nodeName")):
            return
        if self.concerns(pod, old):
            node = self.initializer.lister("", "nodes").get("", node_name)
            if node is None:
                raise denied(attributes, f"node {quote(node_name)} not found")
            self.check(attributes, pod, old, node)

    def concerns(self, pod: Object, old: Object) -> bool:
        raise NotImplementedError

    def check(self, attributes: Attributes, pod: Object, old: Object, node: Object) -> None:
        """Raises Forbidden."""
        raise NotImplementedError


class PodResizeValidator(_OfPodOnNode):
    """A resized pod must fit on its node, which must run Linux according to its labels."""

    gate = "InPlacePodVerticalScaling"
    subresources = frozenset({"resize"})

    def concerns(self, pod: Object, old: Object) -> bool:
        return bool(pod["metadata"].get("generation", 0) != old["metadata"].get("generation", 0))

    def check(self, attributes: Attributes, pod: Object, old: Object, node: Object) -> None:
        system = (node["metadata"].get("labels") or {}).get(_OS, "linux")
        if system != "linux":
            name = quote(node["metadata"]["name"])
            why = f"pod resize is only supported on linux nodes, node {name} is {quote(system)}"
            raise _denied(attributes, why, "UnsupportedPlatform")
        requested = pod_resources(pod["spec"], "requests", overhead=True)
        allocatable = tree.dig(node, "status", "allocatable") or {}
        problems = []
        for resource, number in (("cpu", quantities.milli), ("memory", quantities.ceiling)):
            wanted, there = requested.get(resource, "0"), allocatable.get(resource, "0")
            if quantities.compare(wanted, there) > 0:
                problems.append(f"{resource}, requested: {number(wanted)}, allocatable: {number(there)}")
        if problems:
            why = f"node didn't have enough allocatable resources: {'; '.join(problems)}"
            raise _denied(attributes, why, "NodeCapacity")


class NodeDeclaredFeatureValidator(_OfPodOnNode):
    """A node must declare the features that an update of its pod needs."""

    gate = "NodeDeclaredFeatures"
    subresources = frozenset({"", "resize"})

    def concerns(self, pod: Object, old: Object) -> bool:
        return any(_needed(pod, old))

    def check(self, attributes: Attributes, pod: Object, old: Object, node: Object) -> None:
        declared = tree.dig(node, "status", "declaredFeatures") or ()
        lacking = [name for name in _needed(pod, old) if name not in declared]
        if lacking:
            name = quote(node["metadata"]["name"])
            why = f"pod update requires features {', '.join(lacking)} which are not available on node {name}"
            raise denied(attributes, why)


def _needed(pod: Object, old: Object) -> Iterator[str]:
    """The features that a change of a pod needs, in order of their names."""
    spec, before = pod["spec"], old["spec"]
    if not same(spec.get("resources"), before.get("resources")):
        yield "InPlacePodLevelResourcesVerticalScaling"
    if any(
        other.get("restartPolicy") != "Always" and not same(one.get("resources"), other.get("resources"))
        for one, other in zip(spec.get("initContainers") or (), before.get("initContainers") or (), strict=False)
    ):
        yield "InPlacePodVerticalScalingInitContainers"


def _denied(attributes: Attributes, why: str, reason: str) -> StatusError:
    error = denied(attributes, why)
    error.details = {**(error.details or {}), "causes": [{"reason": reason}]}
    return error
