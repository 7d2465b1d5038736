"""PodNodeSelector: pods get the node selector of their namespace (upstream: ``podnodeselector``)."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, Plugin
from kapi.admission.pods import PODS, is_pod
from kapi.machinery.golang import quote
from kapi.machinery.names import label_value, qualified_name
from kapi.machinery.status import Forbidden, forbidden, generic, internal
from kapi.machinery.tree import Object, Tree

_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_DEFAULT = "clusterDefaultNodeSelector"


class PodNodeSelector(Plugin):
    operations = frozenset({CREATE})
    configured = True

    def __init__(self, initializer: Initializer, configuration: Tree) -> None:
        self.initializer = initializer
        self.selectors: dict[str, str] = (configuration or {}).get("podNodeSelectorPluginConfig") or {}

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        return self._check(attributes, change=True) if is_pod(attributes) else None

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        return self._check(attributes, change=False) if is_pod(attributes) else None

    async def _check(self, attributes: Attributes, *, change: bool) -> None:
        assert attributes.obj is not None
        namespace = await self.initializer.live("", "namespaces", attributes.namespace)
        if namespace is None:
            raise internal(f"namespace {attributes.namespace} does not exist")
        selector = self._selector_of(namespace)
        spec = attributes.obj.setdefault("spec", {})
        own: dict[str, str] = spec.get("nodeSelector") or {}
        if any(key in selector and selector[key] != value for key, value in own.items()):
            raise _refused(attributes, "pod node label selector conflicts with its namespace node label selector")
        if change and selector:
            own = spec["nodeSelector"] = {**selector, **own}
        allowed = _labels(self.selectors.get(attributes.namespace) or "")
        if allowed and any(allowed.get(key) != value for key, value in own.items()):
            raise _refused(attributes, "pod node label selector labels conflict with its namespace whitelist")

    def _selector_of(self, namespace: Object) -> dict[str, str]:
        text = (namespace["metadata"].get("annotations") or {}).get(_ANNOTATION)
        return _labels(self.selectors.get(_DEFAULT) or "" if text is None else text)


def _refused(attributes: Attributes, why: str) -> Forbidden:
    return forbidden(PODS, ((attributes.obj or {}).get("metadata") or {}).get("name") or "", why)


def _labels(text: str) -> dict[str, str]:
    """``a=b,c=d`` as a mapping.  Raises an error without a reason, as upstream does."""
    found: dict[str, str] = {}
    for term in text.split(",") if text else ():
        parts = term.split("=")
        if len(parts) != 2:
            raise generic(f"invalid selector: [{' '.join(parts)}]")
        key, value = parts[0].strip(), parts[1].strip()
        if wrong := qualified_name(key):
            raise generic(f"<nil>: Invalid value: {quote(key)}: {'; '.join(wrong)}")
        if wrong := label_value(value):
            raise generic(f"[{key}]: Invalid value: {quote(value)}: {'; '.join(wrong)}")
        found[key] = value
    return found
