"""The outermost of the three servers: discovery of everything, and the way to servers elsewhere.

Upstream: kube-aggregator ``apiserver.go``, ``handler_proxy.go``, ``handler_apis.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.ssl import PrivateCertificate

from kapi.aggregator.backend import Backends
from kapi.aggregator.controller import APIServiceController
from kapi.aggregator.groups import merged_groups
from kapi.aggregator.proxy import ReverseProxy, unavailable
from kapi.aggregator.registration import service_name
from kapi.client.interface import Client
from kapi.endpoints.discovery.groups import GroupEntry
from kapi.endpoints.discovery.handler import DiscoveryHandler
from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.openapi.handler import OpenAPIHandler
from kapi.machinery.gvk import GroupVersion
from kapi.request.context import RequestContext
from kapi.resources.apiregistration.apiservices import is_available
from kapi.resources.definition import Lister, Resource
from kapi.server.generic import Answer, Delegate, GenericServer

Object = dict[str, Any]


class AggregatorServer(GenericServer):
    """A generic server that first looks whether somebody else serves the group version."""

    def __init__(self, delegate: Delegate, table: ResourceTable) -> None:
        super().__init__("kube-aggregator", delegate, table)
        self._lister: Lister | None = None
        self._proxy: ReverseProxy | None = None
        #: to be called when what is served here changes
        self.changed: Callable[[], None] = lambda: None

    def aggregate(
        self,
        client: Client,
        reactor: Any,
        *,
        rows: Callable[[], Iterable[Resource]],
        address: Callable[[], str],
        now: Callable[[], str],
        identity: PrivateCertificate | None = None,
    ) -> APIServiceController:
        """Makes discovery, OpenAPI and the controller of APIServices; hooks start and stop it.

        ``rows`` is everything that is served here, custom resources included; ``identity`` is the certificate that
        other servers know us by.  Returns the controller, which wants to hear of changed custom resources.
        """
        backends = Backends(reactor)
        self._proxy = ReverseProxy(reactor, backends)
        lister = self._lister = client.resource("apiregistration.k8s.io", "apiservices").lister

        def groups() -> list[GroupEntry]:
            return merged_groups(rows(), lister.list(), controller.remote)

        discovery = DiscoveryHandler(groups, address)
        openapi = OpenAPIHandler(groups)

        def changed() -> None:
            discovery.invalidate()
            openapi.invalidate()

        controller = APIServiceController(
            client,
            reactor,
            backends,
            served=lambda: dict.fromkeys(row.group_version for row in rows() if not row.typed_items),
            custom=lambda: dict.fromkeys(row.group_version for row in rows() if row.typed_items),
            changed=changed,
            now=now,
            identity=identity,
            openapi=openapi.remote,
        )
        self.changed = changed
        self.discovery = discovery.handle
        self.more_paths.append(discovery.paths)
        self.more_paths.append(lambda: ["/openapi/v2", "/openapi/v3", "/openapi/v3/"])
        self.fallbacks.append(openapi.handle)
        self.add_post_start_hook("apiservice-registration-controller", controller.start)
        self.add_pre_shutdown_hook("apiservice-registration-controller", controller.stop)
        self.add_health_check("autoregister-completion", lambda: "" if controller.registered else "not registered yet")
        return controller

    def handle(self, ctx: RequestContext) -> Answer:
        if ctx.path.startswith("/apis/") and self._lister is not None:
            service = self._remote_service(ctx.path)
            if service is not None:
                assert self._proxy is not None
                return self._proxy.handle(ctx, service["metadata"]["name"]) if is_available(service) else unavailable()
        return super().handle(ctx)

    def _remote_service(self, path: str) -> Object | None:
        """The APIService of a path that belongs to another server."""
        parts = path.split("/", 4)
        if len(parts) < 4 or not parts[3]:
            return None
        assert self._lister is not None
        service = self._lister.get("", service_name(GroupVersion(parts[2], parts[3])))
        if service is None or service["spec"].get("service") is None:
            return None
        return service
