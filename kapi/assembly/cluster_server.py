"""What serves a logical cluster (docs/adr/0029): its caches and who may do what there, and behind these, when it is needed,
the chain of its servers with policy and controllers.

Most of what tests ask of a fresh cluster is about built-in resources.  Reading these takes no chain, and writing them none
whose controllers run; what somebody may have defined waits for these.  Discovery is that of all fresh clusters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.admission.interface import AdmissionChain
from kapi.apiextensions.serving import GROUP as EXTENSIONS_GROUP
from kapi.apiextensions.serving import PLURAL as DEFINITIONS
from kapi.assembly.cluster_chain import ClusterChain, Shared
from kapi.assembly.config import Reloaders
from kapi.assembly.filters import build_handler_chain
from kapi.assembly.sleeping import Admitted
from kapi.authorization.build import build_authorization
from kapi.authorization.node.late_graph import LateNodeGraph
from kapi.authorization.rbac.late_index import LatePolicyIndex
from kapi.client import work
from kapi.core.install import AGGREGATOR_GROUP
from kapi.endpoints.late_table import LateTable
from kapi.filters.chain import Filter, FilterChain, Handler
from kapi.machinery import status
from kapi.registry.identities import Identities
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.reactor import Reactor
from kapi.request.response import Response
from kapi.server.moved_clock import MovedClock
from kapi.server.past_reads import OPTION as AS_OF
from kapi.store.memory import MemoryStore
from kapi.store.table import Table
from kapi.watchcache.late_caches import LateCaches

log = Logger()
_DEFINITIONS = f"{EXTENSIONS_GROUP}/{DEFINITIONS}/"
SERVICES = f"{AGGREGATOR_GROUP}/apiservices"
_ELSEWHERE = b'"service":'  # in an APIService of another server
_OWN_PATHS = "/kapi/"  # of each cluster alone, among those that are about no resource


@dataclass(frozen=True, slots=True)
class Model:
    """The chain of a cluster that nobody has changed, and by which APIServices it answers."""

    chain: ClusterChain
    services: Table


class ClusterServer:
    """What serves one store, until it is stopped.  Controllers, expiry and the ends of watches go by ``clock``, requests by
    the process's.

    ``behind``: filters that requests pass last, as those of the process's server do.  ``model`` answers discovery as long as
    it would be the same here.
    """

    def __init__(
        self,
        shared: Shared,
        store: MemoryStore,
        clock: MovedClock,
        behind: Sequence[Filter] = (),
        identities: Identities | None = None,
        model: Model | None = None,
    ) -> None:
        given = replace(shared.config.given, reactor=cast(Reactor, clock))  # which passes on what it has not
        config = replace(shared.config, given=given, reloaders=Reloaders())
        store.max_object_bytes = config.options.storage.redis_max_object_bytes
        store.call = config.slices.call
        work.run_by(given.reactor, config.slices.call)
        main, environment = shared.storage.caches.parts[0], shared.storage.registry.environment
        self.caches = LateCaches(store, config.given.reactor, shared.scopes, main=main, call=config.slices.call)
        environment = msgspec.structs.replace(
            environment, listers={}, clock=clock.time, identities=identities, authors=None, timers=clock
        )
        registry = Registry(store, self.caches, AdmissionChain(), environment, late=shared.storage.registry.rows)
        self.client = registry.client
        index, graph = LatePolicyIndex(registry.client), LateNodeGraph(registry.client)
        index.call = config.slices.call
        self._authorization = build_authorization(config.authorization.settings, index, graph)
        environment.authorizer = authorizer = self._authorization.authorizer
        identity = shared.policy.identity.over(registry)
        self._shared, self._config, self._registry, self._identity = shared, config, registry, identity
        self._store, self._clock = store, clock
        self._table = LateTable(shared.chain.core.table, registry.stores.__getitem__)
        self._chain: ClusterChain | None = None
        self._starting: Deferred[None] | None = None  # the chain
        self._beginning: Deferred[None] | None = None
        self._stopped = False
        self._simple = False  # nobody has defined resources, or says that another server has some
        self._model = model
        self._makes_policy = store.foreign
        #: watches that faults may meet are known to these
        self._reads = {"get", "list"} if config.options.features.enable_fault_injection else {"get", "list", "watch"}
        known = replace(identity, requests=Admitted(identity.requests))
        filters = build_handler_chain(shared.config, known, authorizer, shared.flow, self._serves)
        self.handle: Handler = FilterChain([*filters, *behind], self._answer).handle

    async def start(self) -> None:
        """Done when requests can be answered."""
        await self.caches.start()
        self._simple = not self._store.matching(_DEFINITIONS) and not any(
            _ELSEWHERE in data for _, data in self._store.matching(SERVICES)
        )
        if not self._simple or self._model is None or self._store.tables().get(SERVICES) is not self._model.services:
            self._model = None

    # -- requests

    def _answer(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        chain = self._chain
        if chain is not None and chain.running:
            return chain.handle(ctx)
        if self._simple and self._is_built_in(ctx):
            info = ctx.info
            assert info is not None
            if info.verb in self._reads and not info.subresource and AS_OF not in ctx.query:
                answer = self._table.handle(ctx)
                assert answer is not None
                return answer
            return self._made().handle(ctx)
        if self._model is not None and self._is_discovery(ctx):
            return self._model.chain.handle(ctx)
        return self._later(ctx)

    def _is_discovery(self, ctx: RequestContext) -> bool:
        """Whether it is about what all clusters serve, or about the process."""
        return ctx.info is not None and not ctx.info.is_resource and not ctx.path.startswith(_OWN_PATHS)

    def _is_built_in(self, ctx: RequestContext) -> bool:
        """Whether it is about a resource that nobody can define, or let another server serve, before the chain runs."""
        info = ctx.info
        if info is None or not info.is_resource or ctx.path.startswith("//"):
            return False
        scope = self._table.scope(info.group, info.version, info.resource)
        return scope is not None and (not scope.resource.handler or info.verb == "create")

    async def _later(self, ctx: RequestContext) -> Response:
        answer = (await self.running()).handle(ctx)
        return answer if isinstance(answer, Response) else await answer

    def _serves(self, group: str, version: str, plural: str, subresource: str) -> bool:
        if self._chain is not None:
            return self._chain.serves(group, version, plural, subresource)
        return self._table.scope(group, version, plural, subresource) is not None

    # -- the chain

    def _made(self) -> ClusterChain:
        chain = self._chain
        if chain is None:
            chain = self._chain = ClusterChain(
                self._shared, self._config, self._registry, self._authorization, self._identity, self._table,
                self._store, self._clock,
            )  # fmt: skip
        return chain

    async def running(self) -> ClusterChain:
        """The chain, which has been started.  Raises ServiceUnavailable."""
        chain = self._made()
        if not chain.running and self._starting is None:
            starting = Deferred.fromCoroutine(self._start(chain))
            if not starting.called:
                self._starting = starting
        if not chain.running and self._starting is not None:
            turn: Deferred[None] = Deferred()
            self._starting.addBoth(_fire, turn)
            await turn
        if not chain.running:
            raise status.service_unavailable("the logical cluster could not be started", 1)
        return chain

    async def _start(self, chain: ClusterChain) -> None:
        """One that cannot be started is made anew for the next request."""
        try:
            await chain.start()
        except CancelledError:
            pass  # it has been stopped
        except Exception:
            log.failure("the servers of a logical cluster could not be started")
            self._chain = None
            await chain.stop()
        self._starting = None

    def begin(self) -> None:
        """Starts the controllers."""
        if self._beginning is None and not self._stopped:
            self._beginning = Deferred.fromCoroutine(self._begin())
            self._beginning.addErrback(_log_failed)

    async def _begin(self) -> None:
        waiting = (await self.running()).begin(makes_policy=self._makes_policy)
        if waiting is not None:
            await waiting

    @property
    def beginning(self) -> bool:
        """Whether controllers are still being started."""
        return self._beginning is not None and not self._beginning.called

    async def stop(self, why: Exception | None = None) -> None:
        self._stopped = True
        if why is not None:
            for cache in self.caches.all():
                cache.end_watches(why)
        for waiting in (self._starting, self._beginning):
            if waiting is not None and not waiting.called:
                waiting.cancel()
        if self._chain is not None:
            await self._chain.stop()
        await self.caches.stop()

    def tick(self) -> None:
        self.caches.tick()


def _fire(result: object, waiting: Deferred[None]) -> object:
    if not waiting.called:
        waiting.callback(None)
    return result


def _log_failed(failure: Failure) -> None:
    if not failure.check(CancelledError):
        log.failure("controllers of a logical cluster failed", failure)
