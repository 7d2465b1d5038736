"""The outermost of the three servers: discovery of all groups, and the proxy to other servers.

Upstream: kube-aggregator ``apiserver.go``, ``handler_proxy.go``, ``handler_apis.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kapi.endpoints.discovery.handler import DiscoveryHandler
from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.openapi.handler import OpenAPIHandler
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.lifecycles import RELEASE, Release
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.resources.apiregistration import is_available
from kapi.resources.definition import Lister
from kapi.runtime.interface import Client
from kapi.servers.aggregator.backend import Backends
from kapi.servers.aggregator.controller import APIServiceController
from kapi.servers.aggregator.groups import GroupIndex
from kapi.servers.aggregator.objects import RemoteObjects, RemoteResources
from kapi.servers.aggregator.proxy import ReverseProxy, unavailable
from kapi.servers.aggregator.registration import service_name
from kapi.serving.generic import Delegate, GenericServer
from kapi.serving.routing import Answer, Routes
from kapi.wire.egress import DIRECT, Egress
from kapi.wire.tls.trust import Identity

#: upstream's hooks whose work one controller does here
_STEPS = (
    "aggregator-reload-proxy-client-cert",
    "apiservice-discovery-controller",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-wait-for-first-sync",
    "kube-apiserver-autoregistration",
    "start-kube-aggregator-informers",
)


class AggregatorServer(GenericServer):
    """A generic server that proxies the group versions of other servers."""

    app = Routes(inherited=GenericServer.app)

    def __init__(self, delegate: Delegate, table: ResourceTable) -> None:
        super().__init__("kube-aggregator", delegate, table)
        self._lister: Lister | None = None
        self.remotes: RemoteResources  # from ``aggregate`` on
        self._proxy: ReverseProxy | None = None
        self._openapi: OpenAPIHandler | None = None

    def aggregate(
        self,
        client: Client,
        reactor: Reactor,
        *,
        tables: Sequence[ResourceTable],
        address: Callable[[], str],
        now: Callable[[], str],
        identity: Callable[[], Identity | None] = lambda: None,
        rejects_redirects: bool = True,
        spread: bool = False,
        release: Release = RELEASE,
        egress: Egress = DIRECT,
    ) -> APIServiceController:
        """Makes discovery, OpenAPI and the controller of APIServices; hooks start and stop it.

        ``tables`` have all served resources, the last one those of custom resources; ``identity`` returns the current client
        certificate; ``spread``: requests go to all endpoints of a server; ``release``: the emulated one.
        """
        backends = Backends(reactor, egress)
        self._lister = client.resource("apiregistration.k8s.io", "apiservices").lister
        remote: dict[GroupVersion, list[Object]] = {}
        groups = GroupIndex(
            lambda: dict.fromkeys(name for table in tables for name in table.groups()),
            lambda group: [row for table in tables for row in table.rows(group)],
            remote,
        )
        self.remotes = RemoteResources(RemoteObjects(reactor, backends), remote)
        custom = tables[-1]
        discovery = DiscoveryHandler(groups.all, address, groups.find, custom.cbor)
        openapi = self._openapi = OpenAPIHandler(groups.all, release, custom.cbor)

        def custom_version(gv: GroupVersion) -> bool:
            return any(row.typed_items and row.version == gv.version for row in custom.rows(gv.group))

        def invalidate(group: str = "") -> None:
            discovery.invalidate()
            openapi.invalidate(group)

        def service_changed(kind: str, obj: Object) -> None:
            if obj["spec"].get("group", "") not in self.fixed_groups:
                groups.service(kind, obj)
            invalidate()
            self.remotes.changed()

        def group_changed(gv: GroupVersion) -> None:
            groups.changed(gv.group)
            invalidate(gv.group)

        def remote_changed(gv: GroupVersion) -> None:
            group_changed(gv)
            self.remotes.changed()

        controller = APIServiceController(
            client,
            reactor,
            backends,
            built_in=lambda: [gv for table in tables for gv in table.group_versions() if not custom_version(gv)],
            custom=lambda: [gv for gv in custom.group_versions() if custom_version(gv)],
            is_custom=custom_version,
            service_changed=service_changed,
            remote_changed=remote_changed,
            now=now,
            identity=identity,
            remote=remote,
            openapi=openapi.remote,
            spread=spread,
        )
        self._proxy = ReverseProxy(reactor, backends, controller.failed, rejects_redirects)
        for table in tables:
            table.on_change.append(group_changed)
        custom.on_change.append(controller.custom_changed)
        self.discovery = discovery.handle
        self.more_paths.append(discovery.paths)
        self.more_paths.append(lambda: ["/openapi/v2", "/openapi/v3", "/openapi/v3/"])
        self.add_post_start_hook("apiservice-registration-controller", controller.start, _STEPS)
        self.add_closing_hook("apiservice-registration-controller", controller.stop)
        self.add_health_check("autoregister-completion", lambda: "" if controller.registered else "not registered yet")
        return controller

    @app.route("/openapi", branch=True, listed=False)
    def openapi(self, ctx: RequestContext) -> Answer:
        return None if self._openapi is None else self._openapi.handle(ctx)

    def api(self, ctx: RequestContext) -> Answer:
        """Proxies the request if its group version belongs to another server, else answers as any server."""
        if ctx.path.startswith("/apis/") and self._lister is not None:
            service = self._remote_service(ctx.path)
            if service is not None:
                assert self._proxy is not None
                return self._proxy.handle(ctx, service["metadata"]["name"]) if is_available(service) else unavailable()
        return super().api(ctx)

    def is_remote(self, uri: bytes) -> bool:
        """Whether a request with this target is proxied, judged without decoding the path."""
        if not uri.startswith(b"/apis/") or self._lister is None:
            return False
        return self._remote_service(uri.partition(b"?")[0].decode("latin-1")) is not None

    def _remote_service(self, path: str) -> Object | None:
        """The APIService of a path that belongs to another server.

        APIServices themselves never do, so that one which points nowhere can be corrected.
        """
        parts = path.split("/", 4)
        if len(parts) < 4 or not parts[3] or parts[2] in self.fixed_groups:
            return None
        assert self._lister is not None
        service = self._lister.get("", service_name(GroupVersion(parts[2], parts[3])))
        if service is None or service["spec"].get("service") is None:
            return None
        return service
