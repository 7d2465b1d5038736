"""The graph of a logical cluster, built at the first request of a kubelet: most clusters have no nodes."""

from __future__ import annotations

from kapi.authorization.node.graph import NodeGraph
from kapi.runtime.interface import Client


class LazyNodeGraph(NodeGraph):
    """Lists all objects through ``client`` when it is first used, and watches them from then on."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client: Client | None = client

    def leads_to(self, node: str, kind: str, namespace: str, name: str) -> bool:
        self._read()
        return super().leads_to(node, kind, namespace, name)

    def _read(self) -> None:
        """Once.  The first events of the watches are the objects that were listed here, and change nothing."""
        client, self._client = self._client, None
        if client is None:
            return
        for resource, take in self.sources(client):
            for obj in resource.lister.list():
                take("ADDED", obj, None)
        self.follow(client)
