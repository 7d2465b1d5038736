"""DefaultTolerationSeconds: pods stay five minutes on a node that is not ready or not reachable."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.admission.pods import is_pod

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"


class DefaultTolerationSeconds(Plugin):
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods"})

    def __init__(self, not_ready: int, unreachable: int) -> None:
        self.seconds = ((_NOT_READY, not_ready), (_UNREACHABLE, unreachable))

    def admit(self, attributes: Attributes) -> None:
        if not is_pod(attributes) or attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        tolerations = spec.get("tolerations") or []
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for key, seconds in self.seconds
            if not any(
                toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")
                for toleration in tolerations
            )
        ]
        if added:
            spec["tolerations"] = [*tolerations, *added]


def make(initializer: Initializer, configuration: object) -> Plugin:
    settings = initializer.settings
    return DefaultTolerationSeconds(settings.not_ready_toleration, settings.unreachable_toleration)
