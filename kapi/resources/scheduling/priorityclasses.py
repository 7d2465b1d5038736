"""PriorityClass (scheduling.k8s.io/v1), and the two that every cluster has.

Upstream: ``pkg/apis/scheduling/validation``, ``pkg/apis/scheduling/v1/helpers.go``."""

from __future__ import annotations

from kapi.machinery import status
from kapi.machinery.field import Path, forbidden, required
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_immutable
from kapi.resources.shared.rules import Errors, not_supported
from kapi.resources.shared.strategies import PlainStrategy

_SYSTEM_PREFIX = "system-"
_MAX_USER_PRIORITY = 1_000_000_000
_SYSTEM_CRITICAL = 2 * _MAX_USER_PRIORITY
#: classes created at the start; other classes may not have names with their prefix
SYSTEM_CLASSES: tuple[Object, ...] = (
    {
        "metadata": {"name": "system-node-critical"},
        "value": _SYSTEM_CRITICAL + 1000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": _SYSTEM_CRITICAL,
        "description": (
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
        ),
    },
)


def _system_class_problem(obj: Object) -> str:
    name = obj["metadata"].get("name", "")
    for known in SYSTEM_CLASSES:
        if known["metadata"]["name"] != name:
            continue
        if obj.get("value", 0) != known["value"]:
            return f"value of {name} PriorityClass must be {known['value']}"
        if obj.get("globalDefault"):
            return f"globalDefault of {name} PriorityClass must be false"
        return ""
    return f"{name} is not a known system priority class"


class PriorityClassStrategy(PlainStrategy):
    namespaced = False

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if old is None:
            obj["metadata"]["generation"] = 1

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        if obj["metadata"].get("name", "").startswith(_SYSTEM_PREFIX):
            problem = _system_class_problem(obj)
            if problem:
                detail = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"
                errors.append(forbidden(Path("metadata").child("name"), detail))
        elif obj.get("value", 0) > _MAX_USER_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
            errors.append(forbidden(Path("value"), detail))
        policy = obj.get("preemptionPolicy")
        if policy == "":
            errors.append(required(Path("preemptionPolicy")))
        elif policy not in (None, "PreemptLowerPriority", "Never"):
            errors.append(not_supported(Path("preemptionPolicy"), policy, ("PreemptLowerPriority", "Never")))

    def admit_delete(self, obj: Object, ctx: StrategyContext) -> None:
        name = obj["metadata"]["name"]
        if any(known["metadata"]["name"] == name for known in SYSTEM_CLASSES):
            resource = GroupResource("scheduling.k8s.io", "priorityclasses")
            raise status.forbidden(resource, name, "this is a system priority class and cannot be deleted")

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        if obj.get("value", 0) != old.get("value", 0):
            errors.append(forbidden(Path("value"), "may not be changed in an update."))
        path = Path("preemptionPolicy")
        validate_immutable(obj.get("preemptionPolicy"), old.get("preemptionPolicy"), path, errors)


RESOURCE = Resource(
    *type_meta("scheduling.k8s.io/v1", "PriorityClass"),
    short_names=("pc",),
    strategy=PriorityClassStrategy(),
    table=printing.table(
        printing.NAME,
        printing.field_column("Value", ".value", empty=0, type="integer"),
        printing.field_column("Global-Default", ".globalDefault", empty=False, type="boolean"),
        printing.AGE,
        printing.column(
            "PreemptionPolicy",
            lambda obj, now: obj.get("preemptionPolicy") or "",
            "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, "
            "PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.",
        ),
        of="api.scheduling.v1.PriorityClass",
    ),
)
