"""RuntimeClass: pods get the overhead and the scheduling of their runtime class (KEP 688)."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, Attributes, denied
from kapi.admission.plugins.tolerations import merged
from kapi.admission.pods import is_pod
from kapi.machinery import quantities, tree
from kapi.machinery.golang import quote
from kapi.machinery.names import path_segment
from kapi.machinery.status import generic
from kapi.machinery.tree import Object


class RuntimeClass(InitializedPlugin):
    operations = frozenset({CREATE})
    resources = frozenset({"pods"})

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        if not is_pod(attributes) or _class_name(attributes) is None:
            return None
        return self._admit(attributes)

    async def _admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        found, spec = await self._find(attributes), attributes.obj["spec"]
        fixed = tree.dig(found, "overhead", "podFixed")
        if found.get("overhead") is not None:
            if spec.get("overhead") and not _same(fixed, spec["overhead"]):
                raise denied(attributes, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
            if fixed:
                spec["overhead"] = dict(fixed)
            else:
                spec.pop("overhead", None)
        scheduling = found.get("scheduling")
        if scheduling is None:
            return
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                raise denied(
                    attributes,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )
            selector[key] = value
        if selector:
            spec["nodeSelector"] = selector
        tolerations = merged(spec.get("tolerations") or [], scheduling.get("tolerations") or [])
        if tolerations:
            spec["tolerations"] = tolerations

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if not is_pod(attributes) or attributes.obj is None:
            return None
        if _class_name(attributes) is not None:
            return self._validate(attributes)
        if attributes.obj.get("spec", {}).get("overhead") is not None:
            raise denied(
                attributes, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return None

    async def _validate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        found, overhead = await self._find(attributes), attributes.obj["spec"].get("overhead")
        if found.get("overhead") is not None:
            if not _same(found["overhead"].get("podFixed"), overhead):
                raise denied(attributes, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        elif overhead is not None:
            raise denied(
                attributes, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )

    async def _find(self, attributes: Attributes) -> Object:
        name = _class_name(attributes)
        if not name:
            raise generic("resource name may not be empty")
        if problems := path_segment(name):  # upstream's client refuses to send the request
            raise generic(f"invalid resource name {quote(name)}: [{', '.join(problems)}]")
        found = await self.initializer.live("node.k8s.io", "runtimeclasses", name)
        if found is None:
            raise denied(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _class_name(attributes: Attributes) -> str | None:
    name: str | None = tree.dig(attributes.obj, "spec", "runtimeClassName")
    return name


def _same(one: Object | None, other: Object | None) -> bool:
    one, other = one or {}, other or {}
    return one.keys() == other.keys() and all(quantities.compare(one[name], other[name]) == 0 for name in one)
