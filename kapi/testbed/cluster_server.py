"""The server of a logical cluster (docs/adr/0029): caches and authorization, and if needed a server chain with controllers.

Most requests of tests to a fresh cluster are for built-in resources.  Reading these needs no chain.  Writing them needs a chain,
but not its start.  Requests for custom resources wait until the chain is started.  Discovery is the same for all fresh clusters,
and is answered by a model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.admission.interface import AdmissionChain
from kapi.assembly.config import Reloaders
from kapi.assembly.filters import build_handler_chain
from kapi.authorization.build import build_authorization
from kapi.authorization.node.graph import LazyNodeGraph
from kapi.authorization.rbac.index import LazyPolicyIndex
from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.scope import RequestScope
from kapi.filters.chain import Filter, FilterChain, Handler
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource
from kapi.process.reactor import Reactor
from kapi.registry.environment import Identities
from kapi.registry.registry import Registry
from kapi.registry.resource_store import ResourceStore
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.definition import Resource
from kapi.runtime import sliced
from kapi.servers.apiextensions.serving import GROUP as EXTENSIONS_GROUP
from kapi.servers.apiextensions.serving import PLURAL as DEFINITIONS
from kapi.servers.core.install import AGGREGATOR_GROUP
from kapi.store.memory import MemoryStore
from kapi.store.table import Table
from kapi.testbed.cluster_chain import ClusterChain, Shared
from kapi.testbed.lazy_caches import LazyCaches
from kapi.testbed.moved_clock import MovedClock
from kapi.testbed.past_reads import OPTION as AS_OF
from kapi.testbed.sleeping import KnownUserFirst

Key = TypeVar("Key", bound=tuple[str, ...])


class LazyScopes(dict[Key, RequestScope]):
    """The scopes of ``others`` with stores of their own, each made on first use."""

    def __init__(self, others: dict[Key, RequestScope], store: Callable[[GroupResource], ResourceStore]) -> None:
        super().__init__()
        self._others = others
        self._store = store

    def get(self, key: Key, default: None = None) -> RequestScope | None:  # type: ignore[override]
        found = super().get(key)
        if found is None:
            other = self._others.get(key)
            if other is None:
                return default
            row = other.resource
            store = None if row.handler else self._store(row.storage_resource)
            found = self[key] = RequestScope(row, store, other.subresource)  # type: ignore[arg-type]
        return found

    def everything(self) -> Iterable[RequestScope]:
        """All scopes; makes those that are missing."""
        return (scope for key in self._others if (scope := self.get(key)) is not None)


class LazyTable(ResourceTable):
    """Serves the resources of ``like``, which must not change.  ``handlers`` must be set by the caller."""

    def __init__(self, like: ResourceTable, store: Callable[[GroupResource], ResourceStore]) -> None:
        super().__init__()
        self._like = like
        self._scopes = self._all = LazyScopes(like._scopes, store)
        self._subresources = LazyScopes(like._subresources, store)
        self._groups, self._versions = like._groups, like._versions

    def add(self, resource: Resource, store: ResourceStore | None) -> None:
        raise TypeError("what is served here is another table's affair")

    def remove(self, group: str, version: str, plural: str) -> None:
        raise TypeError("what is served here is another table's affair")

    def scopes(self) -> Iterable[RequestScope]:
        return self._all.everything()

    def resources(self) -> Iterable[Resource]:
        return self._like.resources()


log = Logger()
_DEFINITIONS = f"{EXTENSIONS_GROUP}/{DEFINITIONS}/"
SERVICES = f"{AGGREGATOR_GROUP}/apiservices"
_REMOTE_MARK = b'"service":'  # in the JSON of an APIService of another server
_CHAIN_BLOCKS = 7_500  # of memory: a chain, its registry and its caches refer to each other
_OWN_PATHS = "/kapi/"  # non-resource paths that each cluster answers itself


@dataclass(frozen=True, slots=True)
class Model:
    """The chain of an unchanged cluster, which answers discovery, and its table of APIServices."""

    chain: ClusterChain
    services: Table | None


class ClusterServer:
    """Serves one store until it is stopped.

    Controllers, expiry and time-outs of watches use ``clock``; requests use the process's clock.  ``behind`` are filters that
    come last, as with the process's server.  ``model`` answers discovery as long as the answers are the same here.
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
        given = replace(
            shared.config.given, reactor=cast(Reactor, clock)
        )  # which delegates everything else to the reactor
        config = replace(shared.config, given=given, reloaders=Reloaders())
        store.max_object_bytes = config.options.storage.redis_max_object_bytes
        store.call = config.slices.call
        sliced.run_by(given.reactor, config.slices.call)
        main, environment = shared.storage.caches.parts[0], shared.storage.registry.environment
        self.caches = LazyCaches(store, config.given.reactor, shared.scopes, main=main, call=config.slices.call)
        environment = msgspec.structs.replace(
            environment, listers={}, clock=clock.time, identities=identities, authors=None, timers=clock
        )
        registry = Registry(store, self.caches, AdmissionChain(), environment, lazy_rows=shared.storage.registry.rows)
        self.client = registry.client
        index, graph = LazyPolicyIndex(registry.client), LazyNodeGraph(registry.client)
        index.call = config.slices.call
        self._authorization = build_authorization(config.authorization.settings, index, graph)
        environment.authorizer = authorizer = self._authorization.authorizer
        identity = shared.policy.identity.over(registry, store.realm)
        self._shared, self._config, self._registry, self._identity = shared, config, registry, identity
        self._store, self._clock = store, clock
        self._issuer_paths = identity.paths
        self._table = LazyTable(shared.chain.core.table, registry.stores.__getitem__)
        self._chain: ClusterChain | None = None
        self._starting: Deferred[None] | None = None  # the start of the chain, while it is under way
        self._beginning: Deferred[None] | None = None
        self._stopped = False
        self._only_built_in = False  # the store has no custom resources and no APIServices of other servers
        self._model = model
        self._makes_policy = store.foreign
        #: verbs that need no chain; with fault injection watches need it, since faults can end them
        self._reads = {"get", "list"} if shared.faults else {"get", "list", "watch"}
        known = replace(identity, requests=KnownUserFirst(identity.requests))
        filters = build_handler_chain(shared.config, known, authorizer, shared.flow, self._serves)
        self.handle: Handler = FilterChain([*filters, *behind], self._answer).handle

    async def start(self) -> None:
        """Returns when requests can be answered."""
        await self.caches.start()
        self._only_built_in = not self._store.matching(_DEFINITIONS) and not any(
            _REMOTE_MARK in data for _, data in self._store.matching(SERVICES)
        )
        if (
            not self._only_built_in
            or self._model is None
            or self._store.tables().get(SERVICES) is not self._model.services
        ):
            self._model = None

    # -- requests

    def _answer(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        documents = self._issuer_paths.get(ctx.path)
        if documents is not None:
            return documents(ctx)
        chain = self._chain
        if chain is not None and chain.running:
            return chain.handle(ctx)
        if self._only_built_in and self._is_built_in(ctx):
            info = ctx.info
            assert info is not None
            if info.verb in self._reads and not info.subresource and AS_OF not in ctx.query:
                answer = self._table.handle(ctx)
                assert answer is not None
                return answer
            return self._ensure_chain().handle(ctx)
        if self._model is not None and self._is_discovery(ctx):
            return self._model.chain.handle(ctx)
        return self._answer_by_chain(ctx)

    def _is_discovery(self, ctx: RequestContext) -> bool:
        """Whether the answer is the same in all clusters: discovery, or a path of the process."""
        return ctx.info is not None and not ctx.info.is_resource and not ctx.path.startswith(_OWN_PATHS)

    def _is_built_in(self, ctx: RequestContext) -> bool:
        """Whether a request is for a built-in resource, which needs no started chain."""
        info = ctx.info
        if info is None or not info.is_resource or ctx.path.startswith("//"):
            return False
        scope = self._table.scope(info.group, info.version, info.resource)
        return scope is not None and (not scope.resource.handler or info.verb == "create")

    async def _answer_by_chain(self, ctx: RequestContext) -> Response:
        answer = (await self.running()).handle(ctx)
        return answer if isinstance(answer, Response) else await answer

    def _serves(self, group: str, version: str, plural: str, subresource: str) -> bool:
        if self._chain is not None:
            return self._chain.serves(group, version, plural, subresource)
        return self._table.scope(group, version, plural, subresource) is not None

    # -- the chain

    def _ensure_chain(self) -> ClusterChain:
        chain = self._chain
        if chain is None:
            chain = self._chain = ClusterChain(
                self._shared, self._config, self._registry, self._authorization, self._identity, self._table,
                self._store, self._clock,
            )  # fmt: skip
        return chain

    async def running(self) -> ClusterChain:
        """The started chain.  Raises ServiceUnavailable."""
        chain = self._ensure_chain()
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
        """Starts the chain.  After a failure the next request builds a new one."""
        try:
            await chain.start()
        except CancelledError:
            pass  # the cluster was stopped
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
        if self._chain is not None:
            self._config.given.expect_garbage(_CHAIN_BLOCKS)

    def tick(self) -> None:
        self.caches.tick()


def _fire(result: object, waiting: Deferred[None]) -> object:
    if not waiting.called:
        waiting.callback(None)
    return result


def _log_failed(failure: Failure) -> None:
    if not failure.check(CancelledError):
        log.failure("controllers of a logical cluster failed", failure)
