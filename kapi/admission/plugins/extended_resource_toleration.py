"""ExtendedResourceToleration: pods that ask for an extended resource tolerate nodes dedicated to it."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.admission.pods import is_pod
from kapi.machinery.each import elements


class ExtendedResourceToleration(Plugin):
    operations = frozenset({CREATE, UPDATE})

    def admit(self, attributes: Attributes) -> None:
        if not is_pod(attributes) or attributes.obj is None:
            return
        spec = attributes.obj.get("spec") or {}
        names = {
            name
            for field in ("containers", "initContainers")
            for container in elements(spec, field)
            for name in elements(container, "resources", "requests")
            if is_extended(name)
        }
        if not names:
            return
        tolerations = spec.setdefault("tolerations", [])
        places: dict[object, int] = {}
        for i, toleration in enumerate(tolerations):
            if [toleration.get(key) for key in ("operator", "effect", "value")] == ["Exists", "NoSchedule", None]:
                places.setdefault(toleration.get("key"), i)
        for name in sorted(names):
            toleration = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            place = places.get(name)
            if place is None:
                tolerations.append(toleration)
            else:
                tolerations[place] = toleration


def is_extended(name: str) -> bool:
    """A resource with a domain that is not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def make(initializer: Initializer, configuration: object) -> Plugin:
    return ExtendedResourceToleration()
