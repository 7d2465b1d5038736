"""The usage of each kind of object in a quota, and the objects that a quota's scopes select.

Upstream: ``pkg/quota/v1/evaluator/core``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kapi.admission.interface import CREATE, UPDATE, Attributes
from kapi.admission.plugins.tolerations import is_extended
from kapi.admission.quota import lists
from kapi.admission.quota.lists import Amounts
from kapi.machinery import quantities, tree
from kapi.machinery.each import elements, entries
from kapi.machinery.gvk import GroupResource
from kapi.machinery.pod_resources import pod_resources
from kapi.machinery.sorting import ordered
from kapi.machinery.time import lasting, seconds_of
from kapi.machinery.tree import Object
from kapi.resources.definition import Lister
from kapi.resources.shared.persistent_volumes import storage_class

#: {"scopeName": ..., "operator": ..., "values": [...]}
Requirement = Object
_ALIASES = {
    GroupResource("", "configmaps"): "configmaps",
    GroupResource("", "resourcequotas"): "resourcequotas",
    GroupResource("", "replicationcontrollers"): "replicationcontrollers",
    GroupResource("", "secrets"): "secrets",
}
_MAX_CACHED = 1000


def requirements_of(quota: Object) -> list[Requirement]:
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in elements(spec, "scopes")]
    return [*scopes, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def no_match(requirement: Requirement, obj: Object) -> bool:
    """The match of a scope for objects without scopes: none."""
    return False


def pod_matches(requirement: Requirement, obj: Object) -> bool:
    scope = requirement.get("scopeName")
    spec = obj.get("spec") or {}
    if scope in ("Terminating", "NotTerminating"):
        return bool((spec.get("activeDeadlineSeconds") is not None) == (scope == "Terminating"))
    if scope in ("BestEffort", "NotBestEffort"):
        return is_best_effort(spec) is bool(scope == "BestEffort")
    if scope == "PriorityClass":
        name = spec.get("priorityClassName") or ""
        if requirement.get("operator") == "Exists":
            return bool(name)
        return _selects(requirement, [name] if name else [])
    if scope == "CrossNamespacePodAffinity":
        return any(
            term.get("namespaces") or term.get("namespaceSelector") is not None for term in _affinity_terms(spec)
        )
    return False


def claim_matches(requirement: Requirement, obj: Object) -> bool:
    if requirement.get("scopeName") != "VolumeAttributesClass":
        return False
    names = {
        tree.dig(obj, "spec", "volumeAttributesClassName"),
        tree.dig(obj, "status", "currentVolumeAttributesClassName"),
        tree.dig(obj, "status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
    }
    present = ordered(name for name in names if name)
    return bool(present) if requirement.get("operator") == "Exists" else _selects(requirement, present)


def _selects(requirement: Requirement, names: list[str]) -> bool:
    operator, values = requirement.get("operator"), requirement.get("values") or ()
    if operator == "In":
        return any(name in values for name in names)
    if operator == "NotIn":
        return any(name not in values for name in names) if names else True
    return bool(names) is bool(operator == "Exists")


def is_best_effort(spec: Object) -> bool:
    """Whether neither the pod nor a container requests cpu or memory."""
    holders = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for holder in holders:
        resources = holder.get("resources") or {}
        for part in ("requests", "limits"):
            for name, quantity in entries(resources, part):
                if name in ("cpu", "memory") and quantities.parse(quantity).value > 0:
                    return False
    return True


def _affinity_terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in elements(rules, "preferredDuringSchedulingIgnoredDuringExecution"):
            yield weighted.get("podAffinityTerm") or {}


def count_name(resource: GroupResource) -> str:
    """``count/deployments.apps``"""
    return f"count/{resource}"


class Evaluator:
    """Counts objects of any resource."""

    matches = staticmethod(no_match)

    def __init__(self, resource: GroupResource) -> None:
        self.resource = resource
        alias = _ALIASES.get(resource)
        self.names = frozenset({count_name(resource), alias} if alias else {count_name(resource)})

    def handles(self, attributes: Attributes) -> bool:
        return not attributes.subresource and attributes.operation == CREATE

    def concerns(self, names: Collection[str]) -> list[str]:
        """The names in a quota that this kind of object uses."""
        return sorted(name for name in self.names if name in names)

    def missing(self, required: Iterable[str], obj: Object) -> str:
        """The missing fields that are needed to count an object; "" when it has all."""
        return ""

    def usage(self, obj: Object, now: float) -> Amounts:
        return {name: "1" for name in self.names}

    def matching(self, requirements: Iterable[Requirement], obj: Object) -> list[Requirement]:
        return [requirement for requirement in requirements if self.matches(requirement, obj)]


class PodEvaluator(Evaluator):
    matches = staticmethod(pod_matches)
    _NAMES = frozenset(
        {
            "count/pods", "pods", "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
            "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
        }
    )  # fmt: skip
    _NEEDED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})

    def handles(self, attributes: Attributes) -> bool:
        if attributes.subresource == "resize":
            return attributes.operation == UPDATE
        if attributes.subresource:
            return False
        if attributes.operation == CREATE:
            return True
        ending = ("spec", "activeDeadlineSeconds")
        before, after = tree.dig(attributes.old, *ending), tree.dig(attributes.obj, *ending)
        return (before is not None) != (after is not None)

    def concerns(self, names: Collection[str]) -> list[str]:
        found = sorted(name for name in self._NAMES if name in names)
        for name in elements(ordered(names)):
            if name.startswith(("hugepages-", "requests.hugepages-")):
                found.append(name)
            if name.startswith("requests."):
                bare = name.removeprefix("requests.")
                if "/" in bare and is_extended(bare) or bare.startswith("deviceclass.resource.kubernetes.io/"):
                    found.append(name)
        return found

    def missing(self, required: Iterable[str], obj: Object) -> str:
        spec = obj.get("spec") or {}
        if any(
            name in ("cpu", "memory") or name.startswith("hugepages-")
            for part in elements((spec.get("resources") or {}).values())
            if isinstance(part, dict)
            for name in part
        ):
            return ""
        needed = self._NEEDED.intersection(required)
        lacking: dict[str, set[str]] = {}
        for field in ("containers", "initContainers"):
            for container in elements(spec, field):
                resources = container.get("resources") or {}
                known = _pod_amounts(resources.get("requests") or {}, resources.get("limits") or {})
                for name in needed:
                    if name not in known:
                        lacking.setdefault(name, set()).add(container.get("name", ""))
        if not lacking:
            return ""
        return "must specify " + "; ".join(f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))

    def usage(self, obj: Object, now: float) -> Amounts:
        result = {"count/pods": "1"}
        if not _counts(obj, now):
            return result
        spec = obj.get("spec") or {}
        status = obj.get("status")
        requests = pod_resources(spec, "requests", overhead=True, status=status)
        return {**result, **_pod_amounts(requests, pod_resources(spec, "limits", overhead=True, status=status))}


def _counts(pod: Object, now: float) -> bool:
    """Whether a pod still uses resources: not after its end, or after its grace period."""
    if tree.dig(pod, "status", "phase") in ("Failed", "Succeeded"):
        return False
    metadata = pod["metadata"]
    gone, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if gone and grace is not None:
        return bool(now <= seconds_of(gone) + lasting(grace))
    return True


def _pod_amounts(requests: Amounts, limits: Amounts) -> Amounts:
    amounts = {"pods": "1"}
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in requests:
            amounts[name] = amounts[f"requests.{name}"] = requests[name]
        if name in limits:
            amounts[f"limits.{name}"] = limits[name]
    for name, quantity in requests.items():
        if name.startswith("hugepages-"):
            amounts[name] = amounts[f"requests.{name}"] = quantity
        elif is_extended(name) or name.startswith("deviceclass.resource.kubernetes.io/"):
            amounts[f"requests.{name}"] = quantity
    return amounts


class ServiceEvaluator(Evaluator):
    def __init__(self, resource: GroupResource) -> None:
        super().__init__(resource)
        self.names = frozenset({count_name(resource), "services", "services.nodeports", "services.loadbalancers"})

    def handles(self, attributes: Attributes) -> bool:
        return not attributes.subresource and attributes.operation in (CREATE, UPDATE)

    def usage(self, obj: Object, now: float) -> Amounts:
        spec = obj.get("spec") or {}
        ports, balancers = 0, 0
        kind = spec.get("type")
        if kind == "NodePort":
            ports = len(spec.get("ports") or ())
        elif kind == "LoadBalancer":
            balancers = 1
            if spec.get("allocateLoadBalancerNodePorts") is False:
                ports = sum(1 for port in elements(spec, "ports") if port.get("nodePort"))
            else:
                ports = len(spec.get("ports") or ())
        return {
            count_name(self.resource): "1",
            "services": "1",
            "services.loadbalancers": str(balancers),
            "services.nodeports": str(ports),
        }


class ClaimEvaluator(Evaluator):
    """Counts persistent volume claims, in total and by storage class."""

    matches = staticmethod(claim_matches)
    _SUFFIX = ".storageclass.storage.k8s.io/"

    def handles(self, attributes: Attributes) -> bool:
        if attributes.subresource:
            return attributes.subresource == "status"
        return attributes.operation in (CREATE, UPDATE)

    def concerns(self, names: Collection[str]) -> list[str]:
        own = (count_name(self.resource), "persistentvolumeclaims", "requests.storage")
        ends = (f"{self._SUFFIX}persistentvolumeclaims", f"{self._SUFFIX}requests.storage")
        return ordered(name for name in elements(names) if name in own or name.endswith(ends))

    def usage(self, obj: Object, now: float) -> Amounts:
        result = {"persistentvolumeclaims": "1", count_name(self.resource): "1"}
        class_name = storage_class(obj)
        if class_name:
            result[f"{class_name}{self._SUFFIX}persistentvolumeclaims"] = "1"
        storage = tree.dig(obj, "spec", "resources", "requests", "storage")
        if storage is not None:
            size = lists.whole(storage)
            allocated = tree.dig(obj, "status", "allocatedResources", "storage")
            if allocated is not None and quantities.compare(allocated, size) > 0:
                size = lists.whole(allocated)
            result["requests.storage"] = size
            if class_name:
                result[f"{class_name}{self._SUFFIX}requests.storage"] = size
        return result


_MADE_FOR_POD = "resource.kubernetes.io/extended-resource-claim"  # an annotation by the scheduler


class Devices(NamedTuple):
    """The objects that decide for which extended resources a claim counts."""

    classes: Lister
    claims: Lister
    pods: Lister


class ResourceClaimEvaluator(Evaluator):
    """Counts claims of devices by device class, and by the extended resource of a class (KEP 5004).

    Without ``devices`` they are counted by device class only, as with the gate DRAExtendedResource off.
    """

    _SUFFIX = ".deviceclass.resource.k8s.io/devices"
    # before the name of a class: the resource that each class has
    _CLASS = "requests.deviceclass.resource.kubernetes.io/"
    _ALL = 32  # the most devices for a request with allocationMode All

    def __init__(self, resource: GroupResource, devices: Devices | None = None) -> None:
        super().__init__(resource)
        self._devices = devices
        self._oldest: dict[str, dict[str, tuple[str, str]]] = {}  # namespace -> uid of a pod -> its oldest claim

    def _extended_name(self, class_name: str) -> str:
        assert self._devices is not None
        return tree.dig(self._devices.classes.get("", class_name), "spec", "extendedResourceName") or ""

    def handles(self, attributes: Attributes) -> bool:
        return not attributes.subresource and attributes.operation in (CREATE, UPDATE)

    def concerns(self, names: Collection[str]) -> list[str]:
        by_class = [name for name in elements(names) if name in self.names or name.endswith(self._SUFFIX)]
        if self._devices is None:
            return ordered(by_class)
        listed = self._devices.classes.list()
        extended = {f"requests.{tree.dig(one, 'spec', 'extendedResourceName')}" for one in elements(listed)}
        return ordered({*by_class, *(name for name in elements(names) if name in extended or self._is_class(name))})

    def _is_class(self, name: str) -> bool:
        """Whether it is the resource of a class that also has an extended resource; upstream counts no others."""
        return name.startswith(self._CLASS) and bool(self._extended_name(name.removeprefix(self._CLASS)))

    def usage(self, obj: Object, now: float) -> Amounts:
        counts: dict[str, int] = {}

        def size(request: Object) -> int:
            return self._ALL if request.get("allocationMode") == "All" else int(request.get("count") or 1)

        for request in elements(tree.dig(obj, "spec", "devices", "requests")):
            exact, alternatives = request.get("exactly"), request.get("firstAvailable")
            if alternatives:
                most: dict[str, int] = {}
                for option in alternatives:
                    name = option.get("deviceClassName", "")
                    most[name] = max(most.get(name, 0), size(option))
                for name, number in most.items():
                    counts[name] = counts.get(name, 0) + number
            elif exact:
                name = exact.get("deviceClassName", "")
                counts[name] = counts.get(name, 0) + size(exact)
        result = {name: "1" for name in self.names}
        result |= {name + self._SUFFIX: str(number) for name, number in counts.items()}
        if self._devices is None:
            return result
        extended: dict[str, int] = {}
        for name, number in counts.items():
            extended[self._CLASS + name] = number
            if resource := self._extended_name(name):
                extended[f"requests.{resource}"] = number
        charged = self._charged(obj, self._devices, now)
        for name, number in extended.items():
            left = number - quantities.ceiling(charged.get(name, "0"))
            if left > 0:
                result[name] = str(left)
        return result

    def _charged(self, claim: Object, devices: Devices, now: float) -> Amounts:
        """What the pod is charged with for which the scheduler made the claim, if it did; each pod has one such claim."""
        metadata = claim["metadata"]
        namespace, owner = metadata.get("namespace", ""), _pod_of(metadata)
        if not owner:
            return {}
        pod = devices.pods.get(namespace, owner.get("name", ""))
        if pod is None or pod["metadata"].get("uid") != owner.get("uid"):
            return {}
        named = tree.dig(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")
        if named is None:
            if namespace not in self._oldest:
                self._oldest[namespace] = _oldest(devices.claims.list(namespace))
            if self._oldest[namespace].get(owner["uid"], _age(metadata)) < _age(metadata):
                return {}
        elif named != metadata.get("name"):
            return {}
        return evaluator_of(_PODS).usage(pod, now)


def _pod_of(metadata: Object) -> Object:
    """The reference to the pod for whose extended resources the scheduler made a claim; empty for other claims."""
    if (metadata.get("annotations") or {}).get(_MADE_FOR_POD) != "true":
        return {}
    owner: Object = next((one for one in elements(metadata, "ownerReferences") if one.get("controller")), {})
    return owner if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod") else {}


def _oldest(claims: list[Object]) -> dict[str, tuple[str, str]]:
    """The uid of each pod with such claims -> the age of its oldest one."""
    found: dict[str, tuple[str, str]] = {}
    for claim in elements(claims):
        if owner := _pod_of(claim["metadata"]):
            uid, age = owner.get("uid", ""), _age(claim["metadata"])
            found[uid] = min(age, found.get(uid, age))
    return found


def _age(metadata: Object) -> tuple[str, str]:
    """Orders claims by age and name; one that is being created is the last."""
    return metadata.get("creationTimestamp") or "~", metadata.get("name", "")


_PODS = GroupResource("", "pods")
DEVICE_CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
_SPECIAL: dict[GroupResource, type[Evaluator]] = {
    _PODS: PodEvaluator,
    GroupResource("", "services"): ServiceEvaluator,
    GroupResource("", "persistentvolumeclaims"): ClaimEvaluator,
    DEVICE_CLAIMS: ResourceClaimEvaluator,
}
_made: dict[GroupResource, Evaluator] = {}


def evaluator_of(resource: GroupResource, devices: Devices | None = None) -> Evaluator:
    """The evaluator of a resource; without ``devices`` no claim counts for an extended resource."""
    if devices is not None and resource == DEVICE_CLAIMS:
        return ResourceClaimEvaluator(resource, devices)
    found = _made.get(resource)
    if found is None:
        found = _SPECIAL.get(resource, Evaluator)(resource)
        if len(_made) < _MAX_CACHED:  # a quota may name resources that do not exist
            _made[resource] = found
    return found
