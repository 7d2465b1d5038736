"""The total requests or limits of a pod (upstream: component-helpers ``resource``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from kapi.machinery import quantities
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object, Tree

#: amounts by the name of their resource
Amounts = Mapping[str, str]
_NOTHING: dict[str, Callable[[Amounts], Amounts]] = {}


def add_all(total: dict[str, str], more: Amounts | None) -> None:
    for name, quantity in entries(more):
        total[name] = quantities.add(total[name], quantity) if name in total else quantity


def raise_to(total: dict[str, str], more: Amounts | None) -> None:
    for name, quantity in entries(more):
        if name not in total or quantities.compare(quantity, total[name]) > 0:
            total[name] = quantity


def _asked(container: Object, part: str) -> Amounts:
    found: Amounts = (container.get("resources") or {}).get(part) or {}
    return found


def of_containers(
    spec: Mapping[str, Tree], part: str, having: Mapping[str, Callable[[Amounts], Amounts]] = _NOTHING
) -> dict[str, str]:
    """The amounts that containers need at once: the sum of regular containers, or the largest init container, with sidecars.

    ``part`` is "requests" or "limits".  ``having``: by the name of a running container, a function from its spec's amounts to the
    amounts that count for it.
    """

    def of(container: Object) -> Amounts:
        asked, name = _asked(container, part), container.get("name", "")
        return having[name](asked) if name in having else asked

    total: dict[str, str] = {}
    for container in elements(spec, "containers"):
        add_all(total, of(container))
    sidecars: dict[str, str] = {}
    start: dict[str, str] = {}
    for container in elements(spec, "initContainers"):
        if container.get("restartPolicy") == "Always":
            needed = of(container)
            add_all(total, needed)
            add_all(sidecars, needed)
            raise_to(start, sidecars)
        else:
            step = dict(_asked(container, part))
            add_all(step, sidecars)
            raise_to(start, step)
    raise_to(total, start)
    return total


def pod_resources(
    spec: Object, part: str, *, huge_pages: bool = True, overhead: bool = False, status: Object | None = None
) -> dict[str, str]:
    """The total requests or limits of a pod, with init containers, sidecars and pod-level values.

    ``status``, if given, has the amounts of running containers: the larger of the amounts in spec and status counts.
    """
    total = of_containers(spec, part, _having(status, part) if status else _NOTHING)
    for name, quantity in entries(spec, "resources", part):
        if name in ("cpu", "memory") or huge_pages and name.startswith("hugepages-"):
            total[name] = quantity
    if overhead:
        for name, quantity in entries(spec, "overhead"):
            if part == "requests" or name in total and quantities.sign(total[name]):
                add_all(total, {name: quantity})
    return total


def _having(status: Object, part: str) -> dict[str, Callable[[Amounts], Amounts]]:
    pending: Object = next((c for c in elements(status, "conditions") if c.get("type") == "PodResizePending"), {})
    infeasible = pending.get("reason") == "Infeasible"  # the requested amounts will not be allocated
    found: dict[str, Callable[[Amounts], Amounts]] = {}
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in elements(status, field):
            if container.get("resources") is None:
                continue
            has: dict[str, str] = {}
            raise_to(has, container["resources"].get(part))
            if part == "requests":
                raise_to(has, container.get("allocatedResources"))
            found[container.get("name", "")] = functools.partial(_most, has, infeasible)
    return found


def _most(has: dict[str, str], infeasible: bool, asked: Amounts) -> dict[str, str]:
    most = dict(has)
    if not infeasible:
        raise_to(most, asked)
    return most
