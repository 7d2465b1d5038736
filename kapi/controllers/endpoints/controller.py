"""Updates the Endpoints of Services, a few Services at a time."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.endpoints.reconcile import desired_endpoints
from kapi.controllers.service_follower import Key, ServiceFollower
from kapi.controllers.service_pods import selector_of
from kapi.machinery import status
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue

BATCH_SECONDS = 0.02  # in which changes of several pods are collected


class EndpointsController:
    name = "endpoints-controller"

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._services = client.resource("", "services")
        self._pods = client.resource("", "pods")
        self._endpoints = client.resource("", "endpoints")
        self._queue: WorkQueue[Key] = WorkQueue(reactor, self.name, self._handle, workers=5)
        self._follower = ServiceFollower(client, lambda key: self._queue.add_after(key, BATCH_SECONDS))

    async def start(self) -> None:
        self._follower.start()

    def stop(self) -> None:
        self._follower.stop()
        self._queue.stop()

    async def _handle(self, key: Key) -> float | None:
        namespace, name = key
        service = self._services.lister.get(namespace, name)
        selector = None if service is None else selector_of(service)
        if service is None or selector is None:
            return None  # the Endpoints of a Service are deleted with it
        existing = self._endpoints.lister.get(namespace, name)
        obj = desired_endpoints(service, self._pods.lister.labelled(selector, namespace), existing)
        if obj is None:
            return None
        try:
            if existing is None:
                await self._endpoints.create(obj, namespace)
            else:
                await self._endpoints.update(obj, namespace)
        except (status.Forbidden, status.NotFound):
            return None  # the namespace is being deleted, or the Service has just been deleted
        except status.AlreadyExists:
            return BATCH_SECONDS
        return None
