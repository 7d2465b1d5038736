"""What a logical cluster is made of (docs/adr/0029): a registry, three servers, a policy and controllers of its own.

What costs much or is the process's is the server's: sockets, TLS, keys, priority and fairness, audit log, metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.admission.interface import AdmissionChain
from kapi.assembly.chain import Outgoing, ServerChain, answer_by, create_server_chain
from kapi.assembly.config import CompletedConfig, Reloaders
from kapi.assembly.controllers import POLICY_HOOK, install_controllers
from kapi.assembly.filters import build_handler_chain
from kapi.assembly.policy import Policy, complete_policy
from kapi.assembly.sleeping import Admitted, Gate
from kapi.assembly.storage import Storage, build_storage
from kapi.authorization.build import build_authorization
from kapi.authorization.rbac.late_index import LatePolicyIndex
from kapi.client import work
from kapi.codecs.split import encode_halves
from kapi.controllers.identity.controller import IdentityController
from kapi.endpoints.connect.transport import TLS
from kapi.filters.chain import Filter, FilterChain, Handler
from kapi.machinery import status
from kapi.machinery.uid import new_uid
from kapi.registry.identities import Identities
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.server.clusters import Clusters
from kapi.server.delegation import Answer
from kapi.server.fault_injection import FaultInjection
from kapi.server.generic import GenericServer
from kapi.server.lifecycle import Hooks, run_hooks
from kapi.server.moved_clock import ClockEndpoint, MovedClock
from kapi.server.not_found import NotFound
from kapi.server.object_loading import LoadEndpoint
from kapi.server.past_reads import PastReads
from kapi.server.routes import install_index
from kapi.server.settled import Settled
from kapi.store.memory import MemoryStore, Snapshot
from kapi.store.sweeper import Sweeper
from kapi.store.value import Value
from kapi.watchcache.late_caches import LateCaches, SharedScopes

log = Logger()
#: what the process's server answers, by a cluster's policy: nothing that tells of other clusters or changes the process
_SHARED_PATHS = ("/healthz", "/livez", "/readyz", "/version", "/metrics", "/.well-known", "/openid")
_IDENTIFIED = ("core/namespaces/", "core/serviceaccounts/")  # what is known by its uid outside of its cluster
_PATIENCE = 30.0  # seconds for the controllers to make what a new cluster has


@dataclass(frozen=True, slots=True)
class Shared:
    """What logical clusters have of the process's server."""

    config: CompletedConfig
    storage: Storage
    policy: Policy
    chain: ServerChain
    outgoing: Outgoing
    flow: Filter | None
    scopes: SharedScopes
    configurations: Mapping[str, Any]  # of admission, without the credentials for webhooks


def shared_scopes(storage: Storage) -> SharedScopes:
    """Of what is built in, before there are custom resources."""
    rows = {resource: store.row for resource, store in storage.registry.stores.items()}
    return SharedScopes(
        storage.caches.parts[0], {resource: (row.selectable_fields, row.namespaced) for resource, row in rows.items()}
    )


def without_credentials(outgoing: Outgoing) -> Outgoing:
    """For where a cluster's own objects point to: what comes there proves nothing of this process."""
    kubelets = outgoing.kubelets
    return Outgoing(replace(kubelets, tls=TLS(kubelets.tls.ca)), lambda: None)


class ProcessPaths(NotFound):
    """The end of a cluster's chain: health, version, metrics and the issuer's keys are those of the process.

    Nothing else is: a cluster says itself who is a member of system:masters, which counts nowhere outside of it.
    """

    def __init__(self, server: GenericServer) -> None:
        self._server = server

    def handle(self, ctx: RequestContext) -> Answer:
        assert ctx.info is not None
        if ctx.path.startswith(_SHARED_PATHS) and not ctx.info.is_resource:
            return self._server.handle(ctx)
        return super().handle(ctx)


class ClusterServer:
    """What serves one store, until it is stopped.  Controllers, expiry and the ends of watches go by ``clock``, requests by
    the process's.

    ``behind``: filters that requests pass last, as those of the process's server do.
    """

    def __init__(
        self,
        shared: Shared,
        store: MemoryStore,
        clock: MovedClock,
        behind: Sequence[Filter] = (),
        identities: Identities | None = None,
    ) -> None:
        given = replace(shared.config.given, reactor=clock)
        config = replace(shared.config, given=given, reloaders=Reloaders())
        options, reactor = config.options, shared.config.reactor
        store.max_object_bytes = options.storage.redis_max_object_bytes
        store.call = config.slices.call
        work.run_by(given.reactor, config.slices.call)
        beside = shared.storage.caches.parts[0]
        self.caches = LateCaches(store, reactor, shared.scopes, beside=beside, call=config.slices.call)
        environment = replace(
            shared.storage.registry.environment, listers={}, clock=clock.time, identities=identities, timers=clock
        )
        registry = Registry(store, self.caches, AdmissionChain(), environment, late=True)
        self._authorization = build_authorization(config.authorization.settings, LatePolicyIndex(registry.client))
        self._authorization.index.call = config.slices.call
        environment.authorizer = authorizer = self._authorization.authorizer
        self.client = registry.client
        storage = build_storage(options, registry, self._authorization)
        identity = shared.policy.identity.beside(registry)
        policy = complete_policy(config, storage, identity, self._authorization, shared.configurations)
        end = ProcessPaths(shared.chain.aggregator)
        chain = create_server_chain(config, storage, policy, without_credentials(shared.outgoing), end)

        install_index(chain.aggregator)
        Settled(self.caches, config.signals.requests, clock).install(chain.core)
        past = PastReads(chain.tables, store)
        past.install(chain.core)
        LoadEndpoint(chain.tables, clock, environment.now).install(chain.core)
        ClockEndpoint(clock, Sweeper(store, None, clock.time).sweep).install(chain.core)
        self._server = chain.aggregator
        self._stopped = False
        self._controllers: Hooks | None = None  # from ``begin`` on
        self._install = partial(install_controllers, config, storage, chain)
        self._core = chain.core
        self._foreign = store.foreign
        serves = chain.aggregator.serves_resource
        known = replace(identity, requests=Admitted(identity.requests))
        filters = build_handler_chain(shared.config, known, authorizer, shared.flow, serves)
        handler = past.around(answer_by(chain.aggregator.handle))
        if options.features.enable_fault_injection:
            faults = FaultInjection(reactor)
            faults.install(chain.core)
            handler = faults.around(handler)
        self.handle: Handler = FilterChain([*filters, *behind], handler).handle

    async def start(self) -> None:
        await self.caches.start()
        self._authorization.graph.follow(self.client)
        for hook in self._server.post_start_hooks().values():
            await hook()

    def begin(self) -> None:
        if self._controllers is not None or self._stopped:
            return
        before = self._core.post_start_hooks()
        self._install()
        hooks = {name: hook for name, hook in self._core.post_start_hooks().items() if name not in before}
        hooks.pop(IdentityController.name, None)  # the process's own Lease is the server's
        if not self._foreign:
            hooks.pop(POLICY_HOOK)  # it came with the template, and what somebody took away since is to stay away
        self._controllers = Hooks(hooks)
        running = self._controllers.run()
        running.addErrback(lambda failure: log.failure("controllers of a logical cluster failed", failure))

    async def stop(self, why: Exception | None = None) -> None:
        self._stopped = True
        if why is not None:
            for cache in self.caches.all():
                cache.end_watches(why)
        if self._controllers is not None:
            self._controllers.stop()
        await run_hooks({**self._server.pre_shutdown_hooks(), **self._server.closing_hooks()})
        await self.caches.stop()

    def tick(self) -> None:
        self.caches.tick()

    @property
    def beginning(self) -> bool:
        """Whether controllers are still being started."""
        return self._controllers is not None and bool(self._controllers.pending)


class Template:
    """What each new cluster begins with: made once, by the controllers that make it in any cluster."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._snapshot: Snapshot | None = None
        self._identified: list[str] = []

    async def make(self) -> None:
        """Runs a cluster until its controllers have nothing to do.  Raises RuntimeError when that does not happen."""
        shared = self._shared
        reactor = shared.config.reactor
        store = MemoryStore(None, shared.storage.registry.environment.clock)
        store.foreign = True  # there is no policy yet
        clock = MovedClock(reactor, shared.storage.registry.environment.clock)
        cluster = ClusterServer(shared, store, clock)
        await cluster.start()
        cluster.begin()
        end = reactor.seconds() + _PATIENCE
        while cluster.beginning or work.busy(clock, 0.0) or cluster.caches.behind():
            if reactor.seconds() > end:
                raise RuntimeError("the controllers of a new logical cluster do not come to an end")
            await deferLater(reactor, 0.005)
        self._snapshot = store.snapshot()._replace(foreign=False)
        self._identified = [key for key in self._snapshot.objects if key.startswith(_IDENTIFIED)]
        await cluster.stop()

    def fresh(self, identities: Identities | None = None) -> MemoryStore:
        """The store of a new cluster, whose namespaces and ServiceAccounts are its own."""
        snapshot = self._snapshot
        if snapshot is None:
            raise status.service_unavailable("the first logical cluster is still being made", 1)
        environment = self._shared.storage.registry.environment
        objects = dict(snapshot.objects)
        now = environment.now()
        for key in self._identified:
            obj = orjson.loads(objects[key].data)
            obj["metadata"].update(uid=new_uid() if identities is None else identities.uid(key), creationTimestamp=now)
            head, tail = encode_halves(obj)
            objects[key] = Value.of(key, head, objects[key].revision, tail)
        return MemoryStore(None, environment.clock, snapshot=snapshot._replace(objects=objects))


def install_clusters(shared: Shared, core: GenericServer) -> Clusters:
    """Adds ``/clusters`` to the server ``core``; what is under it goes by ``Clusters.around``."""
    environment = shared.storage.registry.environment
    template = Template(shared)

    def make(store: MemoryStore, clock: MovedClock, identities: Identities | None) -> ClusterServer:
        return ClusterServer(shared, store, clock, clusters.behind, identities)

    gate = Gate(shared.config, shared.policy.identity, shared.flow)
    clusters = Clusters(shared.config.reactor, environment.clock, template.fresh, make, environment.now, gate)
    clusters.install(core)

    async def start() -> None:
        await template.make()
        clusters.start()

    core.add_post_start_hook("start-logical-clusters", start)
    core.add_closing_hook("stop-logical-clusters", clusters.stop)
    return clusters
