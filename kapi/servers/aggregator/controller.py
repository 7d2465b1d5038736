"""The controllers of APIServices: registration, availability, discovery and OpenAPI, each with its own queue and workers.

They share the events of APIServices and of the Services and EndpointSlices that these name.
Upstream: kube-aggregator ``apiserver.go``.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.endpoints.openapi.remote import RemoteDocuments
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.persistent import Persistent
from kapi.servers.aggregator.availability import SERVICE_LABEL
from kapi.servers.aggregator.backend import BackendClient, Backends
from kapi.servers.aggregator.discovery import RemoteDiscovery
from kapi.servers.aggregator.openapi import OpenAPIDownload
from kapi.servers.aggregator.probing import AvailabilityController
from kapi.servers.aggregator.registration import GROUP, AutoRegistration, Served
from kapi.wire.tls.trust import Identity


class APIServiceController:
    """``service_changed`` is called with each event of an APIService, ``remote_changed`` when the resources of a group version at
    another server have changed.  These are in ``remote``, in the form of aggregated discovery.
    """

    def __init__(
        self,
        client: Client,
        reactor: IReactorTime,
        backends: Backends,
        *,
        served: Served,
        service_changed: Callable[[str, Object], None],
        remote_changed: Callable[[GroupVersion], None],
        now: Callable[[], str],
        identity: Callable[[], Identity | None] = lambda: None,
        remote: dict[GroupVersion, list[Object]] | None = None,
        openapi: RemoteDocuments | None = None,
        backend_client: BackendClient | None = None,
        spread: bool = False,
    ) -> None:
        self._remote = remote if remote is not None else {}
        self._services = client.resource(GROUP, "apiservices")
        self._client = client
        self._backends = backends
        self._service_changed = service_changed
        self._remote_changed = remote_changed
        backend_client = backend_client or BackendClient(reactor, backends)
        self._registration = AutoRegistration(self._services, reactor, served)
        self._availability = AvailabilityController(
            client, reactor, backends, backend_client, passed=self._passed, now=now, identity=identity, spread=spread
        )
        self._discovery = RemoteDiscovery(reactor, backend_client, lambda: self._services.lister, self._resources)
        self._openapi = OpenAPIDownload(reactor, backend_client, openapi or RemoteDocuments())
        self._registering = Persistent("autoregistration", self._registration.register_all, reactor)
        self._stops: list[Callable[[], None]] = []

    @property
    def registered(self) -> bool:
        """Whether every served group version has its APIService, unless that was refused."""
        return self._registration.complete

    async def start(self) -> None:
        """Returns when every served group version has its APIService, or was refused one."""
        self._stops.append(self._services.watch(self._on_service))
        if self._client.has(GROUP, "apiservices"):
            await self._registering.start()
        self._registration.complete = True
        self._stops.append(self._client.resource("", "services").watch(self._on_dependency))
        self._stops.append(self._client.resource("discovery.k8s.io", "endpointslices").watch(self._on_slice))

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        for part in (self._registering, self._registration, self._availability, self._discovery, self._openapi):
            part.stop()

    def failed(self, name: str) -> None:
        """Call it when a proxied request did not reach the server of this APIService."""
        self._availability.failed(name)

    def custom_changed(self, gv: GroupVersion) -> None:
        """Call it when a custom resource of a group version was added or removed."""
        self._registration.enqueue(gv)

    def _passed(self, name: str, gv: GroupVersion) -> None:
        self._openapi.enqueue(name, gv)

    def _resources(self, gv: GroupVersion, found: list[Object] | None) -> None:
        if self._remote.get(gv) == found:
            return
        if found is None:
            del self._remote[gv]
        else:
            self._remote[gv] = found
        self._remote_changed(gv)

    def _on_service(self, kind: str, obj: Object, old: Object | None) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        gv = GroupVersion(spec.get("group", ""), spec.get("version", ""))
        if kind == "DELETED" or spec.get("service") is None:  # there is no other server (any more)
            self._backends.remove(name)
            self._remote.pop(gv, None)
            self._openapi.forget(name)
            self._discovery.forget(name)
        self._service_changed(kind, obj)
        self.custom_changed(gv)  # autoregistration may maintain it
        if kind == "DELETED":
            return
        if old is None or old["spec"] != spec or obj.get("status") != old.get("status"):
            self._availability.enqueue(name)
            if spec.get("service") is not None:
                self._discovery.enqueue(name)

    def _on_dependency(self, kind: str, obj: Object, old: Object | None) -> None:
        self._touch(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])

    def _on_slice(self, kind: str, obj: Object, old: Object | None) -> None:
        name = (obj["metadata"].get("labels") or {}).get(SERVICE_LABEL)
        if name:
            self._touch(obj["metadata"].get("namespace", ""), name)

    def _touch(self, namespace: str, name: str) -> None:
        for service in self._services.lister.list():
            reference = service["spec"].get("service")
            if reference is not None and reference["namespace"] == namespace and reference["name"] == name:
                self._availability.enqueue(service["metadata"]["name"])
