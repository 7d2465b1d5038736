"""What a pod requests or is limited to in all (upstream: component-helpers ``resource``)."""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery import quantities
from kapi.machinery.tree import Object, Tree, dig

_POD_LEVEL = ("cpu", "memory")


def _sum(total: dict[str, str], more: Mapping[str, str]) -> None:
    for name, amount in more.items():
        total[name] = quantities.add(total[name], amount) if name in total else amount


def _largest(total: dict[str, str], more: Mapping[str, str]) -> None:
    for name, amount in more.items():
        if name not in total or quantities.compare(amount, total[name]) > 0:
            total[name] = amount


def pod_amounts(pod: Object, part: str, *, from_status: bool = False) -> dict[str, str]:
    """``part`` is "requests" or "limits"; ``from_status``: what a resized container still has counts when it is more."""
    spec, statuses = pod["spec"], _statuses(pod) if from_status else {}
    total: dict[str, str] = {}
    for container in spec.get("containers") or ():
        _sum(total, _container(pod, container, statuses, part))
    sidecars: dict[str, str] = {}
    initial: dict[str, str] = {}
    for container in spec.get("initContainers") or ():
        amounts = _container(pod, container, statuses, part)
        if container.get("restartPolicy") == "Always":
            _sum(total, amounts)
            _sum(sidecars, amounts)
            _largest(initial, sidecars)
        else:
            step = dict(amounts)
            _sum(step, sidecars)
            _largest(initial, step)
    _largest(total, initial)
    for name, amount in (dig(spec, "resources", part) or {}).items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            total[name] = amount
    for name, amount in (spec.get("overhead") or {}).items():
        if part == "requests" or name in total and quantities.sign(total[name]):
            _sum(total, {name: amount})
    return total


def _statuses(pod: Object) -> dict[str, Object]:
    status: Tree = pod.get("status") or {}
    return {one["name"]: one for key in ("containerStatuses", "initContainerStatuses") for one in status.get(key) or ()}


def _container(pod: Object, container: Object, statuses: Mapping[str, Object], part: str) -> dict[str, str]:
    wanted: dict[str, str] = dict(dig(container, "resources", part) or {})
    status = statuses.get(container["name"])
    if status is None or status.get("resources") is None:
        return wanted
    conditions = dig(pod, "status", "conditions") or ()
    if any(one["type"] == "PodResizePending" and one.get("reason") == "Infeasible" for one in conditions):
        wanted = {}
    _largest(wanted, dig(status, "resources", part) or {})
    if part == "requests":
        _largest(wanted, status.get("allocatedResources") or {})
    return wanted
