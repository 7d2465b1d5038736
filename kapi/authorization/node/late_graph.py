"""What leads to the nodes of a logical cluster, read when a kubelet first asks for something: in most there are none."""

from __future__ import annotations

from kapi.authorization.node.graph import NodeGraph
from kapi.client.interface import Client


class LateNodeGraph(NodeGraph):
    """Reads all there is through ``client`` at the first question, and follows it from then on."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client: Client | None = client

    def leads_to(self, node: str, kind: str, namespace: str, name: str) -> bool:
        self._read()
        return super().leads_to(node, kind, namespace, name)

    def _read(self) -> None:
        """Once.  What the watches begin with is what was read here, and changes nothing."""
        client, self._client = self._client, None
        if client is None:
            return
        for resource, take in self.sources(client):
            for obj in resource.lister.list():
                take("ADDED", obj, None)
        self.follow(client)
