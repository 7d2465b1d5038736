"""PodNodeSelector: pods get the node selector of their namespace (upstream: ``podnodeselector``)."""

from __future__ import annotations

from typing import Any

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, Plugin, denied
from kapi.admission.pods import is_pod
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import internal, not_found

Object = dict[str, Any]
_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_DEFAULT = "clusterDefaultNodeSelector"


class PodNodeSelector(Plugin):
    operations = frozenset({CREATE})

    def __init__(self, initializer: Initializer, selectors: dict[str, str]) -> None:
        self.initializer = initializer
        self.selectors = {name: _labels(text) for name, text in selectors.items()}

    def admit(self, attributes: Attributes) -> Any:
        return self._check(attributes, change=True) if is_pod(attributes) else None

    def validate(self, attributes: Attributes) -> Any:
        return self._check(attributes, change=False) if is_pod(attributes) else None

    async def _check(self, attributes: Attributes, *, change: bool) -> None:
        assert attributes.obj is not None
        namespace = await self.initializer.live("", "namespaces", attributes.namespace)
        if namespace is None:
            raise not_found(GroupResource("", "namespaces"), attributes.namespace)
        wanted = self._selector_of(namespace)
        spec = attributes.obj.setdefault("spec", {})
        own: dict[str, str] = spec.get("nodeSelector") or {}
        if any(key in wanted and wanted[key] != value for key, value in own.items()):
            raise denied(attributes, "pod node label selector conflicts with its namespace node label selector")
        if change and wanted:
            own = spec["nodeSelector"] = {**wanted, **own}
        allowed = self.selectors.get(attributes.namespace)
        if allowed and any(allowed.get(key) != value for key, value in own.items()):
            raise denied(attributes, "pod node label selector labels conflict with its namespace whitelist")

    def _selector_of(self, namespace: Object) -> dict[str, str]:
        text = (namespace["metadata"].get("annotations") or {}).get(_ANNOTATION)
        if text is None:
            return self.selectors.get(_DEFAULT) or {}
        try:
            return _labels(text)
        except ValueError as error:
            raise internal(error) from None


def _labels(text: str) -> dict[str, str]:
    """``a=b,c=d`` as a mapping.  Raises ValueError."""
    found: dict[str, str] = {}
    for term in text.split(","):
        key, sign, value = term.partition("=")
        if text and (not sign or "=" in value):
            raise ValueError(f"invalid selector: {text}")
        if sign:
            found[key.strip()] = value.strip()
    return found


def make(initializer: Initializer, configuration: Any) -> Plugin:
    return PodNodeSelector(initializer, (configuration or {}).get("podNodeSelectorPluginConfig") or {})
