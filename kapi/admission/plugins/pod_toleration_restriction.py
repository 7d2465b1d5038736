"""PodTolerationRestriction: tolerations that a namespace adds and allows (upstream: ``podtolerationrestriction``)."""

from __future__ import annotations

from collections.abc import Awaitable

import orjson

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.admission.pods import is_pod
from kapi.admission.tolerations import Toleration, TolerationIndex, merged
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import generic, not_found
from kapi.machinery.tree import Tree
from kapi.resources.shared.compute import qos_class

_DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
_ALLOWED = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}


class PodTolerationRestriction(Plugin):
    operations = frozenset({CREATE, UPDATE})

    def __init__(self, initializer: Initializer, defaults: list[Toleration], allowed: list[Toleration]) -> None:
        self.initializer = initializer
        self.defaults = defaults
        self.allowed = allowed

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        return self._admit(attributes) if is_pod(attributes) else None

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        return self._validate(attributes) if is_pod(attributes) else None

    async def _admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj.setdefault("spec", {})
        extra: list[Toleration] = []
        if attributes.operation == CREATE:
            of_namespace = await self._annotated(attributes.namespace, _DEFAULTS)
            extra = list(self.defaults if of_namespace is None else of_namespace)
        if qos_class(spec) != "BestEffort":
            extra.append(dict(_PRESSURE))
        if extra:
            spec["tolerations"] = merged(spec.get("tolerations") or [], extra)
        await self._validate(attributes)

    async def _validate(self, attributes: Attributes) -> None:
        tolerations = ((attributes.obj or {}).get("spec") or {}).get("tolerations") or []
        if not tolerations:
            return
        allowed, whose = await self._annotated(attributes.namespace, _ALLOWED), "namespace"
        if allowed is None:
            allowed, whose = self.allowed, "cluster"
        if not allowed:
            return
        covering = TolerationIndex(allowed)
        if not all(covering.covers(toleration) for toleration in elements(tolerations)):
            raise generic(
                f"pod tolerations (possibly merged with namespace default tolerations) conflict with its {whose} whitelist"
            )

    async def _annotated(self, name: str, annotation: str) -> list[Toleration] | None:
        namespace = await self.initializer.live("", "namespaces", name)
        if namespace is None:
            raise not_found(GroupResource("", "namespaces"), name)
        text = (namespace["metadata"].get("annotations") or {}).get(annotation)
        if text is None:
            return None
        try:
            found = orjson.loads(text) if text else []
        except orjson.JSONDecodeError as error:
            raise generic(str(error)) from None
        if found is None:
            return []
        if not isinstance(found, list) or not all(map(_is_toleration, found)):
            raise generic("json: cannot unmarshal into Go value of type []v1.Toleration")
        return found


def _is_toleration(value: object) -> bool:
    return isinstance(value, dict) and all(
        type(item) is (int if name == "tolerationSeconds" else str)
        for name, item in value.items()
        if name in ("key", "operator", "value", "effect", "tolerationSeconds")
    )


def make(initializer: Initializer, configuration: Tree) -> Plugin:
    given = configuration or {}
    return PodTolerationRestriction(initializer, given.get("default") or [], given.get("whitelist") or [])
