"""Watches of a resource, each in one namespace, that are open only while an object there waits for a change."""

from __future__ import annotations

from collections.abc import Callable

from kapi.runtime.interface import EventHandler, ResourceClient


class NamespaceWatches:
    def __init__(self, resource: ResourceClient) -> None:
        self._resource = resource
        self._ends: dict[str, Callable[[], None]] = {}

    def begin(self, namespace: str, changed: EventHandler) -> None:
        """Does nothing where there is one."""
        if namespace in self._ends:
            return
        self._ends[namespace] = (
            _nothing  # present objects are delivered at once, and their handler may begin this watch, too
        )
        self._ends[namespace] = self._resource.watch(changed, namespace=namespace)

    def end(self, namespace: str) -> None:
        self._ends.pop(namespace)()

    def stop(self) -> None:
        for end in self._ends.values():
            end()
        self._ends.clear()


def _nothing() -> None:
    pass
