"""What a logical cluster is made of (docs/adr/0029): a registry, three servers, a policy and controllers of its own.

What costs much or is the process's is the server's: sockets, TLS, keys, priority and fairness, audit log, metrics.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any

import orjson
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.admission.interface import AdmissionChain
from kapi.admission.metrics import Meter as AdmissionMeter
from kapi.aggregator.server import AggregatorServer
from kapi.apiextensions.serving import CustomResources
from kapi.assembly.controllers import install_controllers
from kapi.assembly.filters import filters
from kapi.assembly.identity import Identity
from kapi.assembly.parts import Assembly
from kapi.assembly.policy import admission
from kapi.authorization.build import AuthorizationSettings, build_authorization
from kapi.authorization.rbac.late_index import LatePolicyIndex
from kapi.client import work
from kapi.codecs.split import encode_halves
from kapi.controllers.identity.controller import IdentityController
from kapi.core.handlers import built_in_handlers
from kapi.core.install import AGGREGATOR_GROUP, EXTENSIONS_GROUP, core_rows, install, rows_of
from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.reviews.handlers import review_handlers
from kapi.endpoints.reviews.question import ReviewServices
from kapi.filters.chain import Filter, FilterChain, Handler
from kapi.filters.metrics import IdentityMeter
from kapi.machinery import status
from kapi.machinery.uid import new_uid
from kapi.options.options import Options
from kapi.registry.allocators.install import install as install_allocators
from kapi.registry.claim_status import install_claim_checks
from kapi.registry.escalation import install_escalation_checks
from kapi.registry.policy_parameters import install_parameter_checks, resolver
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.server.clusters import Clusters
from kapi.server.delegation import Answer
from kapi.server.dump import DumpEndpoint
from kapi.server.fault_injection import FaultInjection
from kapi.server.generic import GenericServer
from kapi.server.lifecycle import Hooks, run_hooks
from kapi.server.moved_clock import ClockEndpoint, MovedClock
from kapi.server.not_found import NotFound
from kapi.server.pki import Files
from kapi.server.routes import install_index
from kapi.server.settled import Settled
from kapi.store.memory import MemoryStore, Snapshot, Value
from kapi.store.sweeper import Sweeper
from kapi.watchcache.caches import Caches

log = Logger()
_OWN_PATHS = ("/api", "/openapi", "/kapi", "/clusters")  # under which the process's server is not asked
_IDENTIFIED = ("core/namespaces/", "core/serviceaccounts/")  # what is known by its uid outside of its cluster
_PATIENCE = 30.0  # seconds for the controllers to make what a new cluster has


@dataclass(frozen=True, slots=True)
class Shared:
    """What logical clusters have of the process's server."""

    options: Options
    reactor: Any
    files: Files
    advertise: str
    port: int
    made: Assembly
    settings: dict[str, Any]
    policy: AuthorizationSettings
    identity: Identity
    proxy: Any
    kubelets: KubeletSettings
    admission_meter: AdmissionMeter
    meter: IdentityMeter
    flow: Filter | None


class ProcessPaths(NotFound):
    """The end of a cluster's chain: health, version, metrics and the issuer's keys are those of the process."""

    def __init__(self, server: GenericServer) -> None:
        self._server = server

    def handle(self, ctx: RequestContext) -> Answer:  # type: ignore[override]
        assert ctx.info is not None
        if ctx.info.is_resource or ctx.path.startswith(_OWN_PATHS):
            return super().handle(ctx)
        return self._server.handle(ctx)


class ClusterServer:
    """What serves one store, until it is stopped.  Controllers and expiry go by ``clock``, requests by the process's."""

    def __init__(self, shared: Shared, store: MemoryStore, clock: MovedClock) -> None:
        options, reactor = shared.options, clock
        store.max_object_bytes = options.storage.redis_max_object_bytes
        made = copy.copy(shared.made)
        made.reloaders = []
        beside = shared.made.caches
        self.caches = made.caches = Caches(store, shared.reactor, call=made.slices.call, beside=beside)
        environment = replace(shared.made.registry.environment, listers={}, clock=clock.time)
        registry = made.registry = Registry(store, made.caches, AdmissionChain(), environment, late=True)
        policy = self._policy = build_authorization(shared.policy, LatePolicyIndex(registry.client))
        policy.index.call = made.slices.call
        environment.authorizer = policy.authorizer
        self.client = registry.client

        handlers: dict[str, Any] = {}
        extensions = GenericServer("apiextensions-apiserver", ProcessPaths(shared.made.server), ResourceTable(handlers))
        core = GenericServer("kube-apiserver", extensions, ResourceTable(handlers))
        aggregator = made.server = AggregatorServer(core, ResourceTable(handlers))
        enabled = options.api_enablement.enabled
        for server, rows in (
            (extensions, rows_of(EXTENSIONS_GROUP)),
            (core, core_rows()),
            (aggregator, rows_of(AGGREGATOR_GROUP)),
        ):
            server.fixed_groups = frozenset(row.group for row in rows)
            install(server.table, registry, [row for row in rows if enabled(row.group, row.version, row.plural)])
        ranges = [str(network) for network in options.misc.service_ranges]
        node_ports = install_allocators(registry, ranges, options.misc.service_node_port_range)
        install_escalation_checks(registry, policy.escalation)
        install_claim_checks(registry)
        tables = (core.table, aggregator.table, extensions.table)
        install_parameter_checks(
            registry, resolver(lambda: (one.resource for table in tables for one in table.scopes()))
        )
        plugins, conversion = admission(
            options, registry, environment, shared.settings, reactor, shared.admission_meter
        )
        identity = shared.identity.beside(registry)
        handlers.update(built_in_handlers(registry, reactor, shared.kubelets))
        handlers.update(
            review_handlers(
                ReviewServices(
                    environment,
                    authorizer=policy.authorizer,
                    rules=policy.authorizer,
                    tokens=identity.tokens,
                    issuer=identity.issuer,
                    api_audiences=tuple(options.authentication.audiences),
                    admission=plugins,
                    max_token_seconds=int(options.authentication.service_account_max_token_expiration),
                    extend_tokens=options.authentication.service_account_extend_token_expiration,
                    listers=environment.listers,
                )
            )
        )
        aggregator.aggregate(
            registry.client.named("kube-apiserver"),
            reactor,
            tables=tables,
            address=lambda: f"{options.generic.external_hostname or shared.advertise}:{shared.port}",
            now=environment.now,
            identity=shared.proxy,
            rejects_redirects=options.aggregator.aggregator_reject_forwarding_redirect,
        )
        install_controllers(
            options, reactor, made, core, shared.files, shared.advertise, shared.port, node_ports, tables,
            aggregator.remotes,
        )  # fmt: skip
        built_in = frozenset(
            one.resource.group_resource for table in (core.table, aggregator.table) for one in table.scopes()
        )
        custom = CustomResources(
            registry, extensions.table, registry.client.named("kube-apiserver"), reactor, built_in, conversion.post
        )
        extensions.add_post_start_hook("start-apiextensions-controllers", custom.start)
        extensions.add_closing_hook("stop-apiextensions-controllers", custom.stop)
        install_index(aggregator)
        Settled(made.caches, made.requests, reactor).install(core)
        DumpEndpoint(tables, reactor, environment.now).install(core)
        ClockEndpoint(clock, Sweeper(store, None, clock.time).sweep).install(core)
        self._server = aggregator
        hooks = aggregator.post_start_hooks()
        controllers = core.post_start_hooks().keys() - extensions.post_start_hooks().keys()
        self._first = [hook for name, hook in hooks.items() if name not in controllers]
        #: the process's own Lease is the server's
        self._later = Hooks(
            {name: hooks[name] for name in hooks if name in controllers and name != IdentityController.name}
        )
        chain = filters(
            options, shared.reactor, shared.made, identity, policy.authorizer, shared.flow, shared.meter,
            aggregator.serves_resource,
        )  # fmt: skip
        handler: Handler = self._answer
        if options.features.enable_fault_injection:
            faults = FaultInjection(shared.reactor)
            faults.install(core)
            handler = faults.around(handler)
        self.handle: Handler = FilterChain(chain, handler).handle

    def _answer(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        answer = self._server.handle(ctx)
        if answer is None:
            raise status.no_such_resource()
        return answer

    async def start(self) -> None:
        await self.caches.start()
        self._policy.graph.follow(self.client)
        for hook in self._first:
            await hook()

    def begin(self) -> None:
        self._later.run().addErrback(lambda failure: log.failure("controllers of a logical cluster failed", failure))

    async def stop(self, why: Exception | None = None) -> None:
        if why is not None:
            for cache in self.caches.all():
                cache.end_watches(why)
        self._later.stop()
        await run_hooks({**self._server.pre_shutdown_hooks(), **self._server.closing_hooks()})
        await self.caches.stop()

    def tick(self) -> None:
        self.caches.tick()

    @property
    def beginning(self) -> bool:
        """Whether controllers are still being started."""
        return bool(self._later.pending)


class Template:
    """What each new cluster begins with: made once, by the controllers that make it in any cluster."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._snapshot: Snapshot | None = None
        self._identified: list[str] = []

    async def make(self) -> None:
        """Runs a cluster until its controllers have nothing to do.  Raises RuntimeError when that does not happen."""
        shared = self._shared
        reactor = shared.reactor
        store = MemoryStore(None, shared.made.registry.environment.clock)
        clock = MovedClock(reactor, shared.made.registry.environment.clock)
        cluster = ClusterServer(shared, store, clock)
        await cluster.start()
        cluster.begin()
        end = reactor.seconds() + _PATIENCE
        while cluster.beginning or work.busy(clock, 0.0) or cluster.caches.behind():
            if reactor.seconds() > end:
                raise RuntimeError("the controllers of a new logical cluster do not come to an end")
            await deferLater(reactor, 0.005)
        self._snapshot = store.snapshot()
        self._identified = [key for key in self._snapshot.objects if key.startswith(_IDENTIFIED)]
        await cluster.stop()

    def fresh(self) -> MemoryStore:
        """The store of a new cluster, whose namespaces and ServiceAccounts are its own."""
        snapshot = self._snapshot
        assert snapshot is not None  # nothing is served before
        environment = self._shared.made.registry.environment
        objects = dict(snapshot.objects)
        now = environment.now()
        for key in self._identified:
            obj = orjson.loads(objects[key].data)
            obj["metadata"].update(uid=new_uid(), creationTimestamp=now)
            head, tail = encode_halves(obj)
            objects[key] = Value.of(head, objects[key].revision, tail)
        return MemoryStore(None, environment.clock, snapshot=snapshot._replace(objects=objects))


def install_clusters(shared: Shared, core: GenericServer) -> Clusters:
    """Adds ``/clusters`` to the server ``core``; what is under it goes by ``Clusters.before``."""
    environment = shared.made.registry.environment
    template = Template(shared)

    def make(store: MemoryStore, clock: MovedClock) -> ClusterServer:
        return ClusterServer(shared, store, clock)

    clusters = Clusters(shared.reactor, environment.clock, template.fresh, make, environment.now)
    clusters.install(core)

    async def start() -> None:
        await template.make()
        clusters.start()

    core.add_post_start_hook("start-logical-clusters", start)
    core.add_closing_hook("stop-logical-clusters", clusters.stop)
    return clusters
