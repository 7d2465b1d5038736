"""Priority: resolves a pod's priority class; one class at most is the global default."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, UPDATE, Attributes, denied
from kapi.admission.pods import is_pod
from kapi.machinery.tree import Object

_GROUP = "scheduling.k8s.io"


class Priority(InitializedPlugin):
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods", "priorityclasses"})

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        if not is_pod(attributes) or attributes.obj is None:
            return None
        spec = attributes.obj.setdefault("spec", {})
        if attributes.operation == UPDATE:
            old = (attributes.old or {}).get("spec") or {}
            for field in ("priority", "preemptionPolicy"):
                if spec.get(field) is None and old.get(field) is not None:
                    spec[field] = old[field]
            return None
        name = spec.get("priorityClassName") or ""
        if not name:
            self._set(attributes, spec, self.default())
            return None
        found = self.initializer.lister(_GROUP, "priorityclasses").get("", name)
        if found is None:
            return self._look(attributes, spec, name)
        self._set(attributes, spec, found)
        return None

    async def _look(self, attributes: Attributes, spec: Object, name: str) -> None:
        """Reads the class, which may be newer than the cache."""
        found = await self.initializer.live(_GROUP, "priorityclasses", name)
        if found is None:
            raise denied(attributes, f"no PriorityClass with name {name} was found")
        self._set(attributes, spec, found)

    def _set(self, attributes: Attributes, spec: Object, found: Object | None) -> None:
        if found is None:
            name, priority, policy = "", 0, "PreemptLowerPriority"
        else:
            name, priority = found["metadata"]["name"], found.get("value", 0)
            policy = found.get("preemptionPolicy") or ""
        given = spec.get("priority")
        if given is not None and given != priority:
            raise denied(
                attributes,
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {priority} from the given PriorityClass name",
            )
        given = spec.get("preemptionPolicy")
        if policy and given is not None and given != policy:
            raise denied(
                attributes,
                f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {policy} from the given PriorityClass name",
            )
        if name:
            spec["priorityClassName"] = name
        spec["priority"] = priority
        if policy:
            spec["preemptionPolicy"] = policy

    def default(self) -> Object | None:
        """The global default class; if there are several, the class with the smallest value."""
        found: Object | None = None
        for obj in self.initializer.lister(_GROUP, "priorityclasses").list():
            if obj.get("globalDefault") and (found is None or found.get("value", 0) > obj.get("value", 0)):
                found = obj
        return found

    def validate(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.resource != "priorityclasses" or resource.group != _GROUP or attributes.subresource:
            return
        assert attributes.obj is not None
        if not attributes.obj.get("globalDefault"):
            return
        default = self.default()
        if default is None:
            return
        name = default["metadata"]["name"]
        if attributes.operation == CREATE or name != attributes.obj["metadata"].get("name"):
            raise denied(attributes, f"PriorityClass {name} is already marked as default. Only one default can exist")
