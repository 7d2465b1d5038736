"""The outermost of the three servers: discovery of all groups, and the proxy to other servers.

Upstream: kube-aggregator ``apiserver.go``, ``handler_proxy.go``, ``handler_apis.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from kapi.servers.aggregator.groups import GroupIndex, ServedTables
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


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What the aggregator needs of the chain, and its settings."""

    tables: Sequence[ResourceTable]  # all, the last one that of custom resources
    address: Callable[[], str]
    now: Callable[[], str]
    identity: Callable[[], Identity | None]  # the current client certificate
    rejects_redirects: bool = True
    sends_uid: bool = True  # the user's UID is sent in a header
    spread: bool = False  # requests go to all endpoints of a server
    release: Release = RELEASE  # the emulated one
    enums: bool = True  # whether OpenAPI documents list the values of enumerations
    egress: Egress = DIRECT


class AggregatorServer(GenericServer):
    """A generic server that proxies the group versions of other servers."""

    app = Routes(inherited=GenericServer.app)

    def __init__(self, delegate: Delegate, table: ResourceTable) -> None:
        super().__init__("kube-aggregator", delegate, table)
        self._lister: Lister | None = None  # None until ``aggregate``, which sets the others, too
        self.remotes: RemoteResources
        self._groups: GroupIndex
        self._discovery: DiscoveryHandler
        self._openapi: OpenAPIHandler
        self._proxy: ReverseProxy

    def aggregate(self, client: Client, reactor: Reactor, given: Aggregation) -> None:
        """Makes discovery, OpenAPI and the controller of APIServices; hooks start and stop it."""
        backends = Backends(reactor, given.egress)
        served, cbor = ServedTables(given.tables), given.tables[-1].cbor
        remote: dict[GroupVersion, list[Object]] = {}
        self._lister = client.resource("apiregistration.k8s.io", "apiservices").lister
        self._groups = groups = GroupIndex(served.groups, served.rows, remote)
        self._discovery = DiscoveryHandler(groups.all, given.address, groups.find, cbor)
        self._openapi = OpenAPIHandler(groups.all, given.release, cbor, given.enums)
        self.remotes = RemoteResources(RemoteObjects(reactor, backends), remote, groups.stale)
        controller = APIServiceController(
            client,
            reactor,
            backends,
            served=served,
            service_changed=self._service_changed,
            remote_changed=self._remote_changed,
            now=given.now,
            identity=given.identity,
            remote=remote,
            openapi=self._openapi.remote,
            spread=given.spread,
        )
        self._proxy = ReverseProxy(reactor, backends, controller.failed, given.rejects_redirects, given.sends_uid)
        for table in given.tables:
            table.on_change.append(self._group_changed)
        served.last.on_change.append(controller.custom_changed)
        self.discovery = self._discovery.handle
        self.more_paths.append(self._discovery.paths)
        self.more_paths.append(lambda: ["/openapi/v2", "/openapi/v3", "/openapi/v3/"])
        self.add_post_start_hook("apiservice-registration-controller", controller.start, _STEPS)
        self.add_closing_hook("apiservice-registration-controller", controller.stop)
        self.add_health_check("autoregister-completion", lambda: "" if controller.registered else "not registered yet")

    def merge_discovery(self, merge: Callable[[list[Object]], Sequence[Object]]) -> Callable[[], None]:
        """Has ``merge`` add the groups of other servers to /apis; returns what to call when these have changed."""
        self._discovery.merge = merge
        return self._discovery.invalidate

    def _service_changed(self, kind: str, obj: Object) -> None:
        if obj["spec"].get("group", "") not in self.fixed_groups:
            self._groups.service(kind, obj)
        self._invalidate()
        self.remotes.changed()

    def _group_changed(self, gv: GroupVersion) -> None:
        self._groups.changed(gv.group)
        self._invalidate(gv.group)

    def _remote_changed(self, gv: GroupVersion) -> None:
        self._group_changed(gv)
        self.remotes.changed()

    def _invalidate(self, group: str = "") -> None:
        """Lets the documents of a group, or of all, be made anew."""
        self._discovery.invalidate()
        self._openapi.invalidate(group)

    @app.route("/openapi", branch=True, listed=False)
    def openapi(self, ctx: RequestContext) -> Answer:
        return None if self._lister is None else self._openapi.handle(ctx)

    def api(self, ctx: RequestContext) -> Answer:
        """Proxies the request if its group version belongs to another server, else answers as any server."""
        if ctx.path.startswith("/apis/") and self._lister is not None:
            service = self._remote_service(ctx.path)
            if service is not None:
                return self._proxy.handle(ctx, service["metadata"]["name"]) if is_available(service) else unavailable()
        return super().api(ctx)

    def is_remote(self, uri: bytes) -> bool:
        """Whether a request with this target is proxied, judged without decoding the path."""
        if not uri.startswith(b"/apis/") or self._lister is None:
            return False
        return self._remote_service(uri.partition(b"?")[0].decode("latin-1")) is not None

    def _remote_service(self, path: str) -> Object | None:
        """The APIService of a path that belongs to another server.

        APIServices themselves are always served here, so that an APIService without a server can be corrected.
        """
        parts = path.split("/", 4)
        if len(parts) < 4 or not parts[3] or parts[2] in self.fixed_groups:
            return None
        assert self._lister is not None
        service = self._lister.get("", service_name(GroupVersion(parts[2], parts[3])))
        if service is None or service["spec"].get("service") is None:
            return None
        return service
