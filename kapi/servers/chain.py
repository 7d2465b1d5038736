"""The chain of servers: three Klein apps, each mounted into the one before it (upstream: cmd/kube-apiserver ``app/server.go``,
CreateServerChain).

A request that has passed the filters comes to the aggregator.  A server answers what it serves; the last branch of its app is
the next server.
"""

from __future__ import annotations

from dataclasses import dataclass

from kapi.endpoints.dispatch import Endpoint, ResourceTable
from kapi.servers.aggregator.server import AggregatorServer
from kapi.serving.generic import Delegate, GenericServer, NotFound


@dataclass(frozen=True, slots=True)
class ServerChain:
    """The servers, outermost first."""

    aggregator: AggregatorServer
    core: GenericServer
    extensions: GenericServer

    @property
    def tables(self) -> tuple[ResourceTable, ...]:
        """The tables of resources; that of custom resources is the last."""
        return self.core.table, self.aggregator.table, self.extensions.table


def create_server_chain(
    handlers: dict[str, Endpoint],
    *,
    table: ResourceTable | None = None,
    end: Delegate | None = None,
    cbor: bool = False,
) -> ServerChain:
    """The three servers, still without resources.  ``handlers`` are the special endpoints by name.

    ``table`` already has the core server's resources; ``end`` takes the place of "404 page not found"; ``cbor`` adds that form.
    """
    own, custom, services = (ResourceTable(handlers, cbor) for _ in range(3))
    extensions = GenericServer("apiextensions-apiserver", delegate=end or NotFound(), table=custom)
    core = GenericServer("kube-apiserver", delegate=extensions, table=table or own)
    return ServerChain(AggregatorServer(delegate=core, table=services), core, extensions)
