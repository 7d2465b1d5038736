"""Writes the slices of one owner, as planned."""

from __future__ import annotations

from kapi.controllers.endpointslice.slices import MANAGED_BY, SERVICE_NAME, Plan
from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.runtime.interface import ResourceClient


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
    except (status.NotFound, status.Forbidden):
        return
