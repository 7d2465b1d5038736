"""Who owns what: the objects that name owners, and those that wait for their dependents.

Upstream: ``graph.go``, ``graph_builder.go``.  An object without owners is in it only while it waits.  An owner is
known by its uid alone: whether it exists is asked of the caches when that matters, so that there are no virtual nodes.

``observe`` and ``forget`` come to checkpoints: one at a time, and who reads the graph meanwhile finds an object that gets other
owners named by those before and those after.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kapi.controllers.garbagecollector.metadata import Metadata, Reference
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource

_MAX_COMPARED = 4  # references of another dependent that are looked at for a like one
_MAX_DEPENDENTS_AT_ONCE = 1000  # dependents


class Node(msgspec.Struct, eq=False, gc=False):
    """An object that names owners or waits for dependents.  It holds no way back to itself."""

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
    """Methods that change the graph return the uids of the nodes that have to be decided again."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}  # by uid
        self._dependents: dict[str, Node | set[Node]] = {}  # by the owner's uid; most owners have one or many
        self._blocking: dict[str, int] = {}  # by the owner's uid: how many references block
        self._gone: set[str] = set()  # owners that are known not to exist, as long as a dependent names them

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def dependents(self, uid: str) -> list[Node]:
        found = self._dependents.get(uid)
        if found is None:
            return []
        return list(found) if isinstance(found, set) else [found]

    def has_many_dependents(self, uid: str) -> bool:
        """Whether it takes long to walk them."""
        found = self._dependents.get(uid)
        return isinstance(found, set) and len(found) > _MAX_DEPENDENTS_AT_ONCE

    def blocked(self, uid: str) -> bool:
        """Whether a dependent blocks the deletion of an owner; an object does not block itself."""
        return uid in self._blocking

    def gone(self, uid: str) -> bool:
        """Whether an owner was seen to go, or was looked for everywhere."""
        return uid in self._gone

    def set_gone(self, uid: str) -> None:
        if uid in self._dependents:
            self._gone.add(uid)

    def of(self, resource: GroupResource) -> Iterator[Node]:
        """The nodes of one resource.  The graph may not change meanwhile."""
        return (node for node in self.nodes.values() if node.resource == resource)

    def observe(self, resource: GroupResource, namespace: str, name: str, seen: Metadata) -> set[str]:
        """An object as it is now."""
        uid = seen.uid
        node = self.nodes.get(uid)
        if not seen.owners and not seen.waits and not seen.orphans:
            return set() if node is None else self._drop(node)
        self._gone.discard(uid)
        if node is None:
            node = self.nodes[uid] = Node(resource, namespace, name, uid)
        node.namespace, node.name = namespace, name  # the strings that the cache has now, too
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
        """An object was deleted."""
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
        """Gives a node other owners; the ones that wait and may have waited for it."""
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
        """The same reference as another dependent holds: a ReplicaSet is named by all its pods alike."""
        found = self._dependents[reference.uid]
        other = next(iter(found)) if isinstance(found, set) else found
        return next((one for one in other.owners[:_MAX_COMPARED] if one == reference), reference)
