"""What controllers are made of: watches, and the queue of what they handle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from twisted.internet.interfaces import IReactorTime

from kapi.runtime.interface import Client, EventHandler, ResourceClient
from kapi.runtime.workqueue import Key, WorkQueue

Ends = list[Callable[[], None]]  # what ends watches


class QueueController(Generic[Key]):
    """A controller whose watches queue keys; ``_handle`` is the handler of its WorkQueue."""

    name: str
    workers = 4

    def __init__(self, reactor: IReactorTime) -> None:
        self._queue: WorkQueue[Key] = WorkQueue(reactor, self.name, self._handle, self.workers)
        self._ends: Ends = []

    async def start(self) -> None:
        self._ends = self._watches()

    def stop(self) -> None:
        for end in self._ends:
            end()
        self._queue.stop()

    def _watches(self) -> Ends:
        """Begins the watches, and returns what ends them."""
        return []

    async def _handle(self, key: Key) -> float | None:
        raise NotImplementedError


class ConfigMapController(QueueController[str]):
    """A controller of one ConfigMap, which is handled at the start and after each of its changes."""

    namespace: str
    map_name: str

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._maps = client.resource("", "configmaps")
        super().__init__(reactor)

    async def start(self) -> None:
        await super().start()
        self.refresh()

    def refresh(self) -> None:
        self._queue.add(self.map_name)

    def _watches(self) -> Ends:
        return [self._maps.watch(lambda *event: self.refresh(), namespace=self.namespace, name=self.map_name)]


class NamespaceWatches:
    """Watches of a resource, each in one namespace, that are open only while an object there waits for a change."""

    def __init__(self, resource: ResourceClient) -> None:
        self._resource = resource
        self._ends: dict[str, Callable[[], None]] = {}

    def begin(self, namespace: str, changed: EventHandler) -> None:
        """Does nothing where there is one."""
        if namespace in self._ends:
            return
        # present objects are delivered at once, and their handler may begin this watch, too
        self._ends[namespace] = _nothing
        self._ends[namespace] = self._resource.watch(changed, namespace=namespace)

    def end(self, namespace: str) -> None:
        self._ends.pop(namespace)()

    def stop(self) -> None:
        for end in self._ends.values():
            end()
        self._ends.clear()


def _nothing() -> None:
    pass
