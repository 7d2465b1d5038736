"""Distributes endpoints over EndpointSlices: which slices are created, updated and deleted; and writes them.

Endpoints stay in their slice, so that as little as possible is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import orjson

from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.runtime.interface import ResourceClient

MAX_ENDPOINTS = 100  # of a slice
SERVICE_NAME, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
#: metadata that a slice keeps when it gets other contents
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_RESERVED = (SERVICE_NAME, MANAGED_BY, HEADLESS)


def slices_of(client: ResourceClient, namespace: str, owner: str, manager: str) -> list[Object]:
    """The slices that a manager keeps for an owner."""
    found = client.lister.labelled({SERVICE_NAME: owner, MANAGED_BY: manager}, namespace)
    return [one for one in found if not one["metadata"].get("deletionTimestamp")]


async def apply_plan(client: ResourceClient, namespace: str, plan: Plan) -> None:
    """Raises Conflict and other errors, but none for a namespace or a slice that is being deleted."""
    try:
        for one in plan.create:
            await client.create(one, namespace)
        for one in plan.update:
            await client.update(one, namespace)
        for one in plan.delete:
            preconditions = {"uid": one["metadata"]["uid"]}
            await client.delete(one["metadata"]["name"], namespace, {"preconditions": preconditions})
    except status.NotFound:
        return
    except status.Forbidden as error:
        if not status.is_namespace_ending(error):
            raise


@dataclass(frozen=True, slots=True)
class Group:
    """The address family and ports that all endpoints of a slice have."""

    family: str
    ports: bytes  # JSON, sorted
    listed: Sequence[Object] = field(default=(), compare=False)  # in the order of a new slice

    @classmethod
    def of(cls, family: str, ports: Iterable[Object]) -> Group:
        plain = [{name: value for name, value in port.items() if value is not None} for port in ports]
        listed = sorted(plain, key=lambda port: (str(port.get("name") or ""), int(port.get("port") or 0)))
        return cls(family, orjson.dumps(listed, option=orjson.OPT_SORT_KEYS), plain)


class Plan(msgspec.Struct):
    create: list[Object] = msgspec.field(default_factory=list)
    update: list[Object] = msgspec.field(default_factory=list)
    delete: list[Object] = msgspec.field(default_factory=list)


class Owner(msgspec.Struct):
    """The object, of ``kind``, whose endpoints are in the slices.  Two endpoints with the same ``identity`` are one, changed."""

    kind: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    manager: str
    headless: bool
    identity: Callable[[Object], str]
    limit: int = MAX_ENDPOINTS

    @property
    def reference(self) -> Object:
        mark = {"controller": True, "blockOwnerDeletion": True}
        return {"apiVersion": "v1", "kind": self.kind, "name": self.name, "uid": self.uid, **mark}

    def owns(self, one: Object) -> bool:
        """Whether a slice is this owner's, and not that of an earlier object with the same name."""
        named = self.uid, self.kind, "v1"
        references = one["metadata"].get("ownerReferences") or []
        return any((each.get("uid"), each.get("kind"), each.get("apiVersion")) == named for each in references)

    def slice_labels(self) -> dict[str, str]:
        labels = {name: value for name, value in self.labels.items() if name not in _RESERVED}
        if self.headless:
            labels[HEADLESS] = ""
        return {**labels, SERVICE_NAME: self.name, MANAGED_BY: self.manager}


def plan(owner: Owner, desired: Mapping[Group, Sequence[Object]], existing: Iterable[Object]) -> Plan:
    """``existing`` are the slices that the manager keeps for the owner."""
    made = Plan()
    kept: dict[Group, list[Object]] = {}
    for one in existing:
        group = Group.of(one["addressType"], one.get("ports") or [])
        if group in desired and (owner.kind != "Service" or owner.owns(one)):
            kept.setdefault(group, []).append(one)
        else:
            made.delete.append(one)
    for group, endpoints in desired.items():
        _fill(owner, group, endpoints, kept.get(group, []), made)
    _recycle(owner, made)
    return made


def _recycle(owner: Owner, made: Plan) -> None:
    """Gives the contents of new slices to the owner's slices of the same family that would be deleted."""
    created: dict[str, list[Object]] = {}
    for new in made.create:
        created.setdefault(new["addressType"], []).append(new)
    deleted, made.delete = made.delete, []
    for one in deleted:
        metadata, news = one["metadata"], created.get(one["addressType"])
        if not news or not owner.owns(one):
            made.delete.append(one)
            continue
        new = news.pop()
        identity = {name: metadata[name] for name in _IDENTITY if name in metadata}
        described = {name: value for name, value in new["metadata"].items() if name != "generateName"}
        made.update.append({**new, "metadata": {**identity, **described}})
    made.create = [new for news in created.values() for new in news]


def _fill(owner: Owner, group: Group, endpoints: Sequence[Object], slices: list[Object], made: Plan) -> None:
    missing = {owner.identity(endpoint): endpoint for endpoint in endpoints}
    contents: list[list[Object]] = []
    for one in slices:
        names = [owner.identity(endpoint) for endpoint in elements(one, "endpoints")]
        contents.append([missing.pop(name) for name in names if name in missing])
    left = list(missing.values())
    # fuller slices first, so that few are changed; those that lose something are changed anyhow
    changed = [len(now) != len(one.get("endpoints") or []) for one, now in zip(slices, contents, strict=True)]
    for at in sorted(range(len(slices)), key=lambda at: (not changed[at], -len(contents[at]))):
        space = owner.limit - len(contents[at])
        contents[at], left = contents[at] + left[: max(0, space)], left[max(0, space) :]
    remaining = sum(1 for content in contents if content)
    for one, content in zip(slices, contents, strict=True):
        if not content and (remaining or left or one is not slices[0]):
            made.delete.append(one)
            continue
        better = _corrected(owner, one, content)
        if better is not None:
            made.update.append(better)
    if not slices and not left:
        made.create.append(_new(owner, group, []))
    for start in range(0, len(left), owner.limit):
        made.create.append(_new(owner, group, left[start : start + owner.limit]))


def _new(owner: Owner, group: Group, endpoints: list[Object]) -> Object:
    metadata: Object = {
        "generateName": f"{owner.name}-",
        "labels": owner.slice_labels(),
        "ownerReferences": [owner.reference],
    }
    if owner.annotations:
        metadata["annotations"] = dict(owner.annotations)
    return {
        "metadata": metadata,
        "addressType": group.family,
        "endpoints": endpoints,
        "ports": [dict(port) for port in group.listed],
    }


def _corrected(owner: Owner, one: Object, endpoints: list[Object]) -> Object | None:
    metadata, labels = one["metadata"], owner.slice_labels()
    annotations = metadata.get("annotations") or {}
    if (
        (one.get("endpoints") or []) == endpoints
        and (metadata.get("labels") or {}) == labels
        and all(annotations.get(name) == value for name, value in owner.annotations.items())
    ):
        return None
    better: Object = {**metadata, "labels": labels}
    if owner.annotations:
        better["annotations"] = {**annotations, **owner.annotations}
    return {**one, "metadata": better, "endpoints": endpoints}
