"""Scopes of quotas: which objects a quota is about."""

from __future__ import annotations

from collections.abc import Iterator

from kapi.machinery import tree
from kapi.machinery.each import elements, entries
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.resources.shared import quantities

#: {"scopeName": ..., "operator": ..., "values": [...]}
Requirement = Object


def requirements_of(quota: Object) -> list[Requirement]:
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in elements(spec, "scopes")]
    return [*scopes, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def no_match(requirement: Requirement, obj: Object) -> bool:
    """Of objects that know no scopes."""
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
    """No container, nor the pod, asks for cpu or memory."""
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
