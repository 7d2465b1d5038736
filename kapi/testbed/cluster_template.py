"""The logical clusters of a server: their initial objects, and their servers (docs/adr/0029)."""

from __future__ import annotations

import orjson
from twisted.internet.task import deferLater

from kapi.codecs.split import encode_halves
from kapi.machinery import status
from kapi.machinery.uid import new_uid
from kapi.registry.environment import Identities
from kapi.runtime import sliced
from kapi.runtime.persistent import Persistent
from kapi.serving.generic import GenericServer
from kapi.store.memory import MemoryStore, Snapshot
from kapi.store.table import Value
from kapi.testbed.cluster_chain import Shared
from kapi.testbed.cluster_server import SERVICES, ClusterServer, Model
from kapi.testbed.clusters import Clusters
from kapi.testbed.moved_clock import MovedClock
from kapi.testbed.sleeping import Gate

_IDENTIFIED = ("core/namespaces/", "core/serviceaccounts/")  # need a uid of their own: tokens name it
_READY_TIMEOUT = 30.0  # seconds for the controllers to create the initial objects


class Template:
    """The initial objects of new clusters: created once, by the same controllers as in any cluster."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._snapshot: Snapshot | None = None
        self._identified: list[Value] = []
        self.model: Model | None = None
        self._model_server: ClusterServer | None = None

    async def make(self) -> None:
        """Runs a cluster until its controllers have nothing left to do.  Raises RuntimeError after a time-out."""
        shared = self._shared
        reactor = shared.config.reactor
        store = MemoryStore(None, shared.storage.registry.environment.clock)
        store.foreign = True  # there is no policy yet
        clock = MovedClock(reactor, shared.storage.registry.environment.clock)
        cluster = ClusterServer(shared, store, clock)
        try:
            await cluster.start()
            cluster.begin()
            end = reactor.seconds() + _READY_TIMEOUT
            while cluster.beginning or sliced.busy(clock, 0.0) or cluster.caches.behind():
                if reactor.seconds() > end:
                    raise RuntimeError("the controllers of a new logical cluster do not come to an end")
                await deferLater(reactor, 0.005)
            self._snapshot = store.snapshot()._replace(foreign=False, realm="")
        finally:
            await cluster.stop()
        self._identified = [value for value in self._snapshot.values() if value.key.startswith(_IDENTIFIED)]
        await self._make_model(self._snapshot)

    async def _make_model(self, snapshot: Snapshot) -> None:
        """Builds the model, which answers discovery for the other clusters."""
        environment = self._shared.storage.registry.environment
        clock = MovedClock(self._shared.config.reactor, environment.clock)
        server = ClusterServer(self._shared, MemoryStore(None, environment.clock, snapshot=snapshot), clock)
        await server.start()
        self._model_server = server
        self.model = Model(await server.running(), snapshot.tables.get(SERVICES))

    async def stop(self) -> None:
        if self._model_server is not None:
            await self._model_server.stop()

    def fresh(self, identities: Identities | None = None) -> MemoryStore:
        """The store of a new cluster, with new uids for its namespaces and ServiceAccounts."""
        snapshot = self._snapshot
        if snapshot is None:
            raise status.service_unavailable("the first logical cluster is still being made", 1)
        environment = self._shared.storage.registry.environment
        now = environment.now()

        def own(value: Value) -> Value:
            obj = orjson.loads(value.data)
            uid = new_uid() if identities is None else identities.uid(value.key)
            obj["metadata"].update(uid=uid, creationTimestamp=now)
            head, tail = encode_halves(obj)
            return Value.of(value.key, head, value.revision, tail)

        return MemoryStore(None, environment.clock, snapshot=snapshot.with_objects(map(own, self._identified)))


def install_clusters(shared: Shared, core: GenericServer) -> Clusters:
    """Adds ``/clusters`` to the server ``core``; requests to paths below it are handled by ``Clusters.around``."""
    environment = shared.storage.registry.environment
    template = Template(shared)

    def make(store: MemoryStore, clock: MovedClock, identities: Identities | None) -> ClusterServer:
        return ClusterServer(shared, store, clock, clusters.behind, identities, template.model)

    gate = Gate(shared.config, shared.policy.identity, shared.flow)
    clusters = Clusters(shared.config.reactor, environment.clock, template.fresh, make, environment.now, gate)
    core.app.include(clusters)
    core.app.include(clusters.snapshots)

    async def begin() -> None:
        await template.make()
        clusters.start()

    beginning = Persistent("logical clusters", begin, shared.config.reactor)
    core.add_post_start_hook("start-logical-clusters", beginning.start)

    async def stop() -> None:
        beginning.stop()
        await clusters.stop()
        await template.stop()

    core.add_closing_hook("stop-logical-clusters", stop)
    return clusters
