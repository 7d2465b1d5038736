"""The graph from objects to the nodes that may read them (upstream: ``plugin/pkg/auth/authorizer/node/graph.go``).

Edges point towards nodes: secret -> pod -> node, secret -> volume -> claim -> pod -> node.  Every edge is owned by the
object that refers to the other, and is removed with this object.  The graph of a logical cluster is built at the first request
of a kubelet: most clusters have no nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kapi.authorization.node.references import (
    pod_config_maps,
    pod_resource_claims,
    pod_secrets,
    pod_volume_claims,
    volume_secrets,
)
from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client, EventHandler, ResourceClient

_MIRROR = "kubernetes.io/config.mirror"


class Vertex(NamedTuple):
    type: str
    namespace: str
    name: str


def _node(name: str) -> Vertex:
    return Vertex("node", "", name)


class NodeGraph:
    def __init__(self) -> None:
        self._out: dict[Vertex, set[Vertex]] = {}
        self._owned: dict[Vertex, list[tuple[Vertex, Vertex]]] = {}

    def follow(self, client: Client) -> Callable[[], None]:
        """Lists and watches the resources that refer to nodes; returns the function that stops it."""
        stops = [resource.watch(handler) for resource, handler in self.sources(client)]

        def stop() -> None:
            for each in stops:
                each()

        return stop

    def sources(self, client: Client) -> list[tuple[ResourceClient, EventHandler]]:
        """The resources that refer to nodes, each with the method that takes its events."""
        handlers = (
            ("", "pods", self.on_pod),
            ("", "persistentvolumes", self.on_volume),
            ("storage.k8s.io", "volumeattachments", self.on_attachment),
            ("resource.k8s.io", "resourceslices", self.on_slice),
            ("certificates.k8s.io", "podcertificaterequests", self.on_pod_certificate),
        )
        return [(client.resource(group, plural), handler) for group, plural, handler in handlers]

    def _replace(self, owner: Vertex, edges: list[tuple[Vertex, Vertex]]) -> None:
        """Replaces edges in steps; until the end both the old and the new edges are in the graph."""
        kept = set(elements(edges))
        for source, target in elements(edges):
            self._out.setdefault(source, set()).add(target)
        before = self._owned.pop(owner, ())
        if edges:
            self._owned[owner] = edges
        for edge in elements(before):
            source, target = edge
            targets = self._out.get(source)
            if edge not in kept and targets is not None:
                targets.discard(target)
                if not targets:
                    del self._out[source]

    def on_pod(self, event: str, pod: Object, old: Object | None = None) -> None:
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        namespace = metadata.get("namespace", "")
        vertex = Vertex("pod", namespace, metadata["name"])
        node = spec.get("nodeName")
        if event == "DELETED" or not node:
            self._replace(vertex, [])
            return
        edges = [(vertex, _node(node))]
        if _MIRROR not in (metadata.get("annotations") or {}):
            account = spec.get("serviceAccountName")
            if account:
                edges.append((Vertex("serviceaccount", namespace, account), vertex))
            for kind, names in (
                ("secret", pod_secrets(pod)),
                ("configmap", pod_config_maps(pod)),
                ("pvc", pod_volume_claims(pod)),
                ("resourceclaim", pod_resource_claims(pod)),
            ):
                edges.extend((Vertex(kind, namespace, name), vertex) for name in elements(names))
        self._replace(vertex, edges)

    def on_volume(self, event: str, volume: Object, old: Object | None = None) -> None:
        vertex = Vertex("pv", "", volume["metadata"]["name"])
        claim = (volume.get("spec") or {}).get("claimRef")
        edges = []
        if event != "DELETED" and claim:
            edges.append((vertex, Vertex("pvc", claim.get("namespace", ""), claim.get("name", ""))))
            edges.extend((Vertex("secret", *secret), vertex) for secret in elements(volume_secrets(volume)))
        self._replace(vertex, edges)

    def on_attachment(self, event: str, attachment: Object, old: Object | None = None) -> None:
        self._direct("volumeattachment", event, attachment)

    def on_slice(self, event: str, resource_slice: Object, old: Object | None = None) -> None:
        self._direct("resourceslice", event, resource_slice)

    def on_pod_certificate(self, event: str, request: Object, old: Object | None = None) -> None:
        self._direct("podcertificaterequest", event, request)

    def _direct(self, kind: str, event: str, obj: Object) -> None:
        metadata = obj["metadata"]
        vertex = Vertex(kind, metadata.get("namespace", ""), metadata["name"])
        node = (obj.get("spec") or {}).get("nodeName")
        self._replace(vertex, [(vertex, _node(node))] if node and event != "DELETED" else [])

    def leads_to(self, node: str, kind: str, namespace: str, name: str) -> bool:
        """Whether the node can be reached from the object."""
        goal = _node(node)
        pending, seen = [Vertex(kind, namespace, name)], set()
        while pending:
            vertex = pending.pop()
            if vertex in seen:
                continue
            seen.add(vertex)
            targets = self._out.get(vertex)
            if not targets:
                continue
            if goal in targets:
                return True
            pending.extend(targets)
        return False


class LazyNodeGraph(NodeGraph):
    """Lists all objects through ``client`` when it is first used, and watches them from then on."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client: Client | None = client

    def leads_to(self, node: str, kind: str, namespace: str, name: str) -> bool:
        self._read()
        return super().leads_to(node, kind, namespace, name)

    def _read(self) -> None:
        """Lists the objects, once.  The first events of the watches are the same objects, and change nothing."""
        client, self._client = self._client, None
        if client is None:
            return
        for resource, take in self.sources(client):
            for obj in resource.lister.list():
                take("ADDED", obj, None)
        self.follow(client)
