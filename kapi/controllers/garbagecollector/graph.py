"""The graph of owners and dependents: objects with owners, and objects that wait for their dependents.

Upstream: ``graph.go``, ``graph_builder.go``.  An object without owners is in the graph only while it waits.  The graph knows
only the uid of an owner.  Whether the owner exists is looked up in the caches when needed, so there are no virtual nodes.

``observe`` and ``forget`` have checkpoints, so only one of them may run at a time.  A reader of the graph may meanwhile find an
object, whose owners change, below both its old and its new owners.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kapi.controllers.garbagecollector.metadata import Metadata, Reference
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource

_MAX_COMPARED = 4  # references of another dependent that are compared, to share an equal one
_MAX_DEPENDENTS_AT_ONCE = 1000


class Node(msgspec.Struct, eq=False, gc=False):
    """An object that has owners or waits for dependents.  It does not refer back to itself, so it needs no collection."""

    resource: GroupResource
    namespace: str
    name: str
    uid: str
    owners: tuple[Reference, ...] = ()
    waits: bool = False
    orphans: bool = False

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}" if self.namespace else f"{self.resource} {self.name}"


class Graph:
    """Methods that change the graph return the uids of the nodes to decide again."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}  # by uid
        self._dependents: dict[str, Node | set[Node]] = {}  # by the owner's uid: one or many dependents
        self._blocking: dict[str, int] = {}  # by the owner's uid: the number of blocking references
        self._gone: set[str] = set()  # owners that are known not to exist, as long as a dependent refers to them

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def dependents(self, uid: str) -> list[Node]:
        found = self._dependents.get(uid)
        if found is None:
            return []
        return list(found) if isinstance(found, set) else [found]

    def has_many_dependents(self, uid: str) -> bool:
        """Whether an owner has so many dependents that a walk takes long."""
        found = self._dependents.get(uid)
        return isinstance(found, set) and len(found) > _MAX_DEPENDENTS_AT_ONCE

    def blocked(self, uid: str) -> bool:
        """Whether a dependent blocks the deletion of an owner; an object does not block itself."""
        return uid in self._blocking

    def gone(self, uid: str) -> bool:
        """Whether the deletion of an owner was observed, or it was looked up everywhere without success."""
        return uid in self._gone

    def set_gone(self, uid: str) -> None:
        if uid in self._dependents:
            self._gone.add(uid)

    def of(self, resource: GroupResource) -> Iterator[Node]:
        """The nodes of one resource.  The graph must not change meanwhile."""
        return (node for node in self.nodes.values() if node.resource == resource)

    def observe(self, resource: GroupResource, namespace: str, name: str, seen: Metadata) -> set[str]:
        """Takes the current state of an object."""
        uid = seen.uid
        node = self.nodes.get(uid)
        if not seen.owners and not seen.waits and not seen.orphans:
            return set() if node is None else self._drop(node)
        self._gone.discard(uid)
        if node is None:
            node = self.nodes[uid] = Node(resource, namespace, name, uid)
        node.namespace, node.name = namespace, name  # shares the strings with the cache
        concerned: set[str] = set()
        if seen.owners != node.owners:
            concerned |= self._own(node, seen.owners)
            if seen.owners:
                concerned.add(uid)
        if seen.waits and not node.waits:
            concerned.add(uid)
            concerned.update(dependent.uid for dependent in elements(self.dependents(uid)))
        if seen.orphans and not node.orphans:
            concerned.add(uid)
        node.waits, node.orphans = seen.waits, seen.orphans
        return concerned

    def forget(self, uid: str) -> set[str]:
        """Removes a deleted object."""
        node = self.nodes.get(uid)
        concerned = set() if node is None else self._drop(node)
        for dependent in elements(self.dependents(uid)):
            self.set_gone(uid)
            concerned.add(dependent.uid)
        concerned.discard(uid)
        return concerned

    def _drop(self, node: Node) -> set[str]:
        concerned = self._own(node, ())
        del self.nodes[node.uid]
        return concerned

    def _own(self, node: Node, owners: tuple[Reference, ...]) -> set[str]:
        """Changes the owners of a node.  Returns the owners that may have waited for it."""
        before = node.owners
        kept = {reference.uid for reference in elements(owners)}
        named = {reference.uid for reference in elements(before)}
        for reference in elements(owners):
            if reference.blocks and reference.uid != node.uid:
                self._blocking[reference.uid] = self._blocking.get(reference.uid, 0) + 1
        for uid in elements(kept - named):
            self._link(uid, node)
        node.owners = tuple([self._shared(reference) for reference in elements(owners)])
        for reference in elements(before):
            self._unblock(node, reference)
        for uid in elements(named - kept):
            self._unlink(uid, node)
        return {uid for uid in elements(named) if uid in self.nodes and self.nodes[uid].waits and not self.blocked(uid)}

    def _unblock(self, node: Node, reference: Reference) -> None:
        if not reference.blocks or reference.uid == node.uid:
            return
        left = self._blocking[reference.uid] - 1
        if left:
            self._blocking[reference.uid] = left
        else:
            del self._blocking[reference.uid]

    def _link(self, uid: str, node: Node) -> None:
        found = self._dependents.get(uid)
        if found is None:
            self._dependents[uid] = node
        elif isinstance(found, set):
            found.add(node)
        else:
            self._dependents[uid] = {found, node}

    def _unlink(self, uid: str, node: Node) -> None:
        found = self._dependents.get(uid)
        if isinstance(found, set):
            found.discard(node)
            if found:
                return
        elif found is not node:
            return
        del self._dependents[uid]
        self._gone.discard(uid)

    def _shared(self, reference: Reference) -> Reference:
        """An equal reference of another dependent, to share it: all pods of a ReplicaSet have the same reference."""
        found = self._dependents[reference.uid]
        other = next(iter(found)) if isinstance(found, set) else found
        return next((one for one in other.owners[:_MAX_COMPARED] if one == reference), reference)
