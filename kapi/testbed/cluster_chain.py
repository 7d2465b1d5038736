"""The server chain of a logical cluster, built at the first request that is not a read of a built-in resource (docs/adr/0029).

It shares expensive or unique parts with the process's server: sockets, TLS, keys, priority and fairness, audit log,
metrics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

import msgspec

from kapi.assembly.chain import Outgoing, build_chain
from kapi.assembly.config import CompletedConfig
from kapi.assembly.controllers import POLICY_HOOK, install_controllers
from kapi.assembly.extension import Parts
from kapi.assembly.identity import Identity
from kapi.assembly.policy import complete_policy
from kapi.assembly.storage import Storage, storage_over
from kapi.authorization.build import Authorization
from kapi.controllers.identity import IdentityController
from kapi.endpoints.connect.transport import TLS
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.tree import Tree
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.user import SYSTEM_MASTERS
from kapi.serving.generic import NotFound
from kapi.serving.life import Hooks, run_hooks
from kapi.serving.routes import Index
from kapi.serving.routing import Answer
from kapi.serving.site import Site
from kapi.store.memory import MemoryStore
from kapi.store.sweeper import Sweeper
from kapi.testbed.fault_injection import FaultInjection
from kapi.testbed.lazy_caches import SharedScopes
from kapi.testbed.moved_clock import ClockEndpoint, MovedClock
from kapi.testbed.object_loading import LoadEndpoint
from kapi.testbed.past_reads import PastReads
from kapi.testbed.settled import Settled

#: paths that the process's server answers for a cluster: none that show other clusters or change the process
_SHARED_PATHS = ("/healthz", "/livez", "/readyz", "/version")
_METRICS = "/metrics"  # they name resources, webhooks and users of the whole process
_READERS = frozenset({SYSTEM_MASTERS, "system:monitoring"})


@dataclass(frozen=True, slots=True)
class Shared(Parts):
    """The parts of the process's server that logical clusters share."""

    scopes: SharedScopes
    configurations: Mapping[str, Tree]  # of admission, without the credentials for webhooks
    faults: bool  # whether faults can be injected


def shared_scopes(storage: Storage) -> SharedScopes:
    """The caches' scopes of the built-in resources, in the process's store."""
    return SharedScopes(
        storage.caches.parts[0],
        {resource: (row.selectable_fields, row.namespaced) for resource, row in storage.registry.rows.items()},
    )


def without_credentials(outgoing: Outgoing) -> Outgoing:
    """Settings without the process's client certificates, since a cluster's own objects choose the contacted servers."""
    kubelets = outgoing.kubelets
    return Outgoing(msgspec.structs.replace(kubelets, tls=TLS(kubelets.tls.ca)), lambda: None)


class ProcessPaths(NotFound):
    """The end of a cluster's chain: health and version come from the process's ``site``.

    Other paths do not, since a cluster's administrators (system:masters) have no permissions outside of their cluster.  Metrics
    are for the process's own masters and monitors.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def handle(self, ctx: RequestContext) -> Answer:
        if ctx.path.startswith(_SHARED_PATHS):
            return self._site.answer(ctx)
        user = ctx.host_user()
        if ctx.path.startswith(_METRICS) and user is not None and not _READERS.isdisjoint(user.groups):
            return self._site.answer(ctx)
        return super().handle(ctx)


class ClusterChain:
    """The server chain of one cluster.

    ``handle`` answers a request that has passed the filters.  ``table`` has the core server's resources.
    """

    def __init__(
        self,
        shared: Shared,
        config: CompletedConfig,
        registry: Registry,
        authorization: Authorization,
        identity: Identity,
        table: ResourceTable,
        store: MemoryStore,
        clock: MovedClock,
    ) -> None:
        self.running = False  # also custom resources and APIServices are served
        storage = storage_over(shared.storage, config.options, registry, authorization)
        policy = complete_policy(config, storage, identity, authorization, shared.configurations)
        outgoing, end = without_credentials(shared.outgoing), ProcessPaths(shared.site)
        chain = build_chain(config, storage, policy, outgoing, end, table)
        core = chain.core
        past = PastReads(chain.tables, store)
        chain.aggregator.app.include(Index(chain.aggregator.listed_paths))
        for part in (
            Settled(registry.caches, config.signals.requests, clock),
            past,
            LoadEndpoint(chain.tables, clock, registry.environment.now),
            ClockEndpoint(clock, Sweeper(store, None, clock.time).sweep),
        ):
            core.app.include(part)
        self.handle = past.around(Site(chain.aggregator, config.reactor).answer)
        if shared.faults:
            faults = FaultInjection(shared.config.reactor)
            core.app.include(faults)
            self.handle = faults.around(self.handle)
        self._config, self._storage, self._chain = config, storage, chain
        self._controllers: Hooks | None = None  # from ``begin`` on

    def serves(self, group: str, version: str, plural: str, subresource: str) -> bool:
        return self._chain.aggregator.serves_resource(group, version, plural, subresource)

    async def start(self) -> None:
        for hook in self._chain.aggregator.post_start_hooks().values():
            await hook()
        self.running = True

    def begin(self, *, makes_policy: bool) -> Awaitable[object] | None:
        """Starts the controllers, once.  Fails when they do.

        ``makes_policy`` also creates the default RBAC policy.  Without it the policy exists already, and objects that a client
        has deleted from it are not created again.
        """
        if self._controllers is not None:
            return None
        core = self._chain.core
        before = core.post_start_hooks()
        install_controllers(self._config, self._storage, self._chain)
        hooks = {name: hook for name, hook in core.post_start_hooks().items() if name not in before}
        hooks.pop(IdentityController.name, None)  # the process has one identity Lease, in the server's own store
        if not makes_policy:
            hooks.pop(POLICY_HOOK)
        self._controllers = Hooks(hooks)
        return self._controllers.run()

    @property
    def beginning(self) -> bool:
        """Whether controllers are still being started."""
        return self._controllers is not None and bool(self._controllers.pending)

    async def stop(self) -> None:
        if self._controllers is not None:
            self._controllers.stop()
        server = self._chain.aggregator
        await run_hooks({**server.pre_shutdown_hooks(), **server.closing_hooks()})
