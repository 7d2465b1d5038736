"""The status of a quota, from the objects of its namespace (upstream: ``quota/v1/resources.go``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kapi.admission.quota import lists
from kapi.admission.quota.evaluators import evaluator_of
from kapi.admission.quota.lists import Amounts
from kapi.admission.quota.scopes import requirements_of
from kapi.machinery.each import elements, entries
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object

PODS, SERVICES = GroupResource("", "pods"), GroupResource("", "services")
CLAIMS, DEVICE_CLAIMS = GroupResource("", "persistentvolumeclaims"), GroupResource("resource.k8s.io", "resourceclaims")
#: resources that are charged for more than their number: their updates matter, too
MEASURED = (PODS, SERVICES, CLAIMS, DEVICE_CLAIMS)
_NUMBERED = tuple(
    GroupResource("", name) for name in ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
)


def limits_of(quota: Object) -> Amounts:
    return (quota.get("spec") or {}).get("hard") or {}


def resources_of(names: Iterable[str]) -> set[GroupResource]:
    """The resources whose objects a quota with limits of these names counts."""
    names = set(names)
    found = {resource for resource in (*MEASURED, *_NUMBERED) if evaluator_of(resource).concerns(names)}
    for name in elements(names):
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            found.add(GroupResource(group, plural))
    return found


def usage(quota: Object, objects: Mapping[GroupResource, Sequence[Object] | int], now: float) -> Amounts:
    """What the objects of the quota's namespace use of it; only resources in ``objects`` are counted.

    Of a resource that is not in MEASURED their number will do: each counts as one, and none has a scope.
    """
    limits, requirements = limits_of(quota), requirements_of(quota)
    total: Amounts = {}
    for resource, present in entries(objects):
        evaluator = evaluator_of(resource)
        names = evaluator.concerns(limits)
        if not names:
            continue
        lists.add_to(total, {name: "0" for name in names})
        if isinstance(present, int):
            if not requirements:
                lists.add_to(total, {name: str(present) for name in names})
            continue
        for obj in elements(present):
            if len(evaluator.matching(requirements, obj)) == len(requirements):
                lists.add_to(total, lists.mask(evaluator.usage(obj, now), names))
    return lists.mask(total, limits)


def corrected(quota: Object, objects: Mapping[GroupResource, Sequence[Object] | int], now: float) -> Object | None:
    """The quota with the status it should have; None when it has it."""
    status, limits = quota.get("status") or {}, limits_of(quota)
    before = status.get("used")
    used = lists.mask({**(before or {}), **usage(quota, objects, now)}, limits)
    if before is not None and status.get("hard") == limits and lists.equal(used, before):
        return None
    return {**quota, "status": {"hard": dict(limits), "used": used}}
