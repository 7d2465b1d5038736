"""The quality-of-service class of a pod (upstream: ``core/helper/qos``)."""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.shared import quantities

_COUNTED = ("cpu", "memory")


def _add(total: dict[str, str], amounts: Mapping[str, str] | None) -> set[str]:
    """Adds the positive amounts that count; returns their names."""
    names = set()
    for name in _COUNTED:
        quantity = (amounts or {}).get(name)
        if quantity is not None and quantities.sign(quantity) > 0:
            names.add(name)
            total[name] = quantities.add(total[name], quantity) if name in total else quantity
    return names


def qos_class(spec: Object, pod_level: bool = True) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    guaranteed = True
    own = spec.get("resources") if pod_level else None
    if own is not None:
        _add(requests, own.get("requests"))
        if own.get("limits"):
            guaranteed = len(_add(limits, own["limits"])) == len(_COUNTED)
    else:
        for part in ("containers", "initContainers"):
            for container in elements(spec, part):
                resources = container.get("resources")
                if not resources:
                    guaranteed = False
                    continue
                _add(requests, resources.get("requests"))
                if len(_add(limits, resources.get("limits"))) < len(_COUNTED):
                    guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and len(requests) == len(limits):
        equal = (name in limits and quantities.compare(limits[name], amount) == 0 for name, amount in requests.items())
        if all(equal):
            return "Guaranteed"
    return "Burstable"
