"""Decides about a dependent from the state of its owners (upstream: ``garbagecollector.go`` attemptToDeleteItem).

A dependent with an existing owner stays, and loses the references to missing owners.  A dependent whose owner waits for it, or
whose owners are all missing, is deleted.  While the state of an owner is unknown nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from kapi.controllers.events import CoreEvent
from kapi.controllers.garbagecollector.graph import Node
from kapi.controllers.garbagecollector.metadata import FOREGROUND, ORPHAN, Metadata, Reference
from kapi.machinery.each import elements
from kapi.machinery.tree import Object


class Owner(Enum):
    """The state of an owner, from one dependent's point of view."""

    SOLID = "it exists"
    WAITING = "it goes, and waits for its dependents"
    ABSENT = "it does not exist"
    UNKNOWN = "nobody serves its kind"
    MISPLACED = "it is where the dependent cannot have an owner"


class Keep(NamedTuple):
    """Nothing is done for now."""


class Release(NamedTuple):
    """These owners are removed from the dependent."""

    uids: frozenset[str]


class Delete(NamedTuple):
    """The dependent is deleted.  ``unblock``: its owners must not wait for it, since it waits for one of them."""

    propagation: str
    unblock: bool = False


Decision = Keep | Release | Delete
KEEP = Keep()


def decide(seen: Metadata, owners: Sequence[Owner], *, has_dependents: bool, in_circle: bool) -> Decision:
    """``owners`` are the states of ``seen.owners``; ``in_circle``: one of the dependents waits for its own."""
    if seen.going or not owners or Owner.UNKNOWN in owners or Owner.MISPLACED in owners:
        return KEEP
    if Owner.SOLID in owners:
        lost = [reference.uid for reference, state in zip(seen.owners, owners, strict=True) if state is not Owner.SOLID]
        return Release(frozenset(lost)) if lost else KEEP
    if Owner.WAITING in owners and has_dependents:
        return Delete("Foreground", unblock=in_circle)
    if ORPHAN in seen.finalizers:
        return Delete("Orphan")
    return Delete("Foreground" if FOREGROUND in seen.finalizers else "Background")


def without_owners(tree: Object, uids: frozenset[str]) -> Object | None:
    """The patch that removes references to owners; None when the object has none of them."""
    references = tree["metadata"].get("ownerReferences") or []
    kept = [reference for reference in elements(references) if reference.get("uid") not in uids]
    return None if len(kept) == len(references) else _patch(tree, "ownerReferences", kept)


def unblocking(tree: Object) -> Object | None:
    """The patch after which no owner waits for an object; None when none does."""
    references = tree["metadata"].get("ownerReferences") or []
    if not any(reference.get("blockOwnerDeletion") for reference in references):
        return None
    return _patch(
        tree, "ownerReferences", [{**reference, "blockOwnerDeletion": False} for reference in elements(references)]
    )


def without_finalizer(tree: Object, finalizer: str) -> Object | None:
    """The patch that removes a finalizer; None when it is not there."""
    finalizers = tree["metadata"].get("finalizers") or []
    kept = [name for name in elements(finalizers) if name != finalizer]
    return None if len(kept) == len(finalizers) else _patch(tree, "finalizers", kept)


def _patch(tree: Object, field: str, kept: list[Object]) -> Object:
    """A patch with the uid and resourceVersion of the object as preconditions."""
    metadata = tree["metadata"]
    return {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], field: kept or None}}


def misplaced_event(node: Node, seen: Metadata, reference: Reference) -> CoreEvent:
    """The event that a dependent's owner cannot be in the namespace of its reference."""
    regarding = {
        "kind": seen.kind,
        "namespace": node.namespace,
        "name": node.name,
        "uid": node.uid,
        "apiVersion": seen.api_version,
    }
    owner = (
        f"[{reference.api_version}/{reference.kind}, namespace: {node.namespace}, name: {reference.name}, "
        f"uid: {reference.uid}]"
    )
    note = f'ownerRef {owner} does not exist in namespace "{node.namespace}"'
    return CoreEvent(regarding, "Warning", "OwnerRefInvalidNamespace", note)


def referring(references: Iterable[Reference], states: Iterable[Owner], wanted: Owner) -> list[Reference]:
    """The references to owners in this state."""
    return [reference for reference, state in zip(references, states, strict=True) if state is wanted]
