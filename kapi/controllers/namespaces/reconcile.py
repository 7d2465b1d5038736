"""The conditions of a terminating namespace, and the namespace without its finalizer.

Upstream: ``pkg/controller/namespace/deletion/{namespaced_resources_deleter,status_condition_utils}.go``.
"""

from __future__ import annotations

import msgspec

from kapi.machinery.each import elements
from kapi.machinery.tree import Object

FINALIZER = "kubernetes"
FINALIZER_SECONDS = 15  # for which objects with finalizers are expected to remain
_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class Remains(msgspec.Struct):
    """The objects that are still in the namespace, and the errors."""

    by_resource: dict[str, int] = msgspec.field(default_factory=dict)  # "pods." -> how many
    by_finalizer: dict[str, int] = msgspec.field(default_factory=dict)
    errors: list[str] = msgspec.field(default_factory=list)
    seconds: int = 0  # until they are expected to be gone

    def add(self, group: str, plural: str, left: list[Object], seconds: int, namespace: str) -> None:
        """Counts the objects of a resource that remain after its deletion."""
        if not left:
            return
        self.by_resource[f"{plural}.{group}"] = len(left)
        held = False
        for obj in elements(left):
            for finalizer in elements(obj["metadata"], "finalizers"):
                held = True
                self.by_finalizer[finalizer] = self.by_finalizer.get(finalizer, 0) + 1
        if not seconds and held:
            seconds = FINALIZER_SECONDS
        elif not seconds:
            self.errors.append(f"unexpected items still remain in namespace: {namespace} for gvr: {plural}.{group}")
        self.seconds = max(self.seconds, seconds)


def seconds_for_pods(pods: list[Object], elapsed: float) -> int:
    """The seconds in which the running pods are expected to end."""
    longest = 0
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        longest = max(longest, int((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0))
    return max(0, longest - int(elapsed))


def conditions_after(namespace: Object, remains: Remains, now: str) -> list[Object] | None:
    """The new conditions; None when nothing changes."""
    found = _findings(remains)
    before = (namespace.get("status") or {}).get("conditions") or []
    conditions = [dict(condition) for condition in elements(before)]
    changed = False
    for kind, fine in _FINE.items():
        status = "True" if kind in found else "False"
        reason, message = found.get(kind, fine)
        condition = next((item for item in elements(conditions) if item.get("type") == kind), None)
        if condition is None:
            condition = {"type": kind, "status": status, "lastTransitionTime": now}
            conditions.append(condition)
        elif all(condition.get(k) == v for k, v in (("status", status), ("reason", reason), ("message", message))):
            continue
        if condition["status"] != status:
            condition["lastTransitionTime"] = now
        condition.update(status=status, reason=reason, message=message)
        changed = True
    return conditions if changed else None


def _findings(remains: Remains) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    if remains.errors:
        text = ", ".join(sorted(remains.errors))
        count = len(remains.errors)
        message = f"Failed to delete all resource types, {count} remaining: {text}"
        found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
    if remains.by_resource:
        text = ", ".join(
            sorted(f"{name} has {count} resource instances" for name, count in remains.by_resource.items())
        )
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {text}")
    if remains.by_finalizer:
        text = ", ".join(
            sorted(f"{name} in {count} resource instances" for name, count in remains.by_finalizer.items())
        )
        message = f"Some content in the namespace has finalizers remaining: {text}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    return found


def finalized(namespace: Object) -> Object:
    """The namespace without this controller's finalizer."""
    spec = namespace.get("spec") or {}
    return {
        **namespace,
        "spec": {**spec, "finalizers": [f for f in elements(spec, "finalizers") if f != FINALIZER]},
    }
