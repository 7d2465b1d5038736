"""TaintNodesByCondition: a new node takes no pods until it is reported ready."""

from __future__ import annotations

from kapi.admission.interface import CREATE, Attributes, Plugin

_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(Plugin):
    operations = frozenset({CREATE})
    resources = frozenset({"nodes"})

    def admit(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.resource != "nodes" or resource.group or attributes.subresource:
            return
        assert attributes.obj is not None
        spec = attributes.obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(taint.get("key") == _TAINT["key"] and taint.get("effect") == _TAINT["effect"] for taint in taints):
            spec["taints"] = [*taints, dict(_TAINT)]
