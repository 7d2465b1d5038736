"""Follows Services with a selector, and the pods of their namespaces; where there is no such Service no pod is looked at."""

from __future__ import annotations

from collections.abc import Callable

from kapi.controllers.namespace_watches import NamespaceWatches
from kapi.controllers.service_pods import matters, selector_of, selects
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

Key = tuple[str, str]  # namespace and name of a Service


class ServiceFollower:
    """``changed`` is called with each Service whose endpoints may have changed."""

    def __init__(self, client: Client, changed: Callable[[Key], None]) -> None:
        self._services = client.resource("", "services")
        self._pods = NamespaceWatches(client.resource("", "pods"))
        self._changed = changed
        self._selectors: dict[str, dict[str, Object]] = {}  # namespace -> Service -> selector
        self._unwatch: Callable[[], None] | None = None

    def start(self) -> None:
        self._unwatch = self._services.watch(self._service_changed)

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._pods.stop()

    def _service_changed(self, event: str, service: Object, old: Object | None) -> None:
        metadata = service["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        selector = None if event == "DELETED" else selector_of(service)
        if selector is None:
            self._forget(namespace, name)
        else:
            self._selectors.setdefault(namespace, {})[name] = selector
            self._pods.begin(namespace, self._pod_changed)
        if event == "DELETED" or selector is not None:
            self._changed((namespace, name))

    def _forget(self, namespace: str, name: str) -> None:
        known = self._selectors.get(namespace)
        if known is None or known.pop(name, None) is None or known:
            return
        del self._selectors[namespace]
        self._pods.end(namespace)

    def _pod_changed(self, event: str, pod: Object, old: Object | None) -> None:
        if event == "MODIFIED" and not matters(pod, old):
            return
        namespace = pod["metadata"]["namespace"]
        for name, selector in self._selectors.get(namespace, {}).items():
            if selects(selector, pod) or (old is not None and selects(selector, old)):
                self._changed((namespace, name))
