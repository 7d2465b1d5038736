"""Carries out what is planned for the slices of one owner."""

from __future__ import annotations

from kapi.client.interface import ResourceClient
from kapi.controllers.endpointslice.slices import MANAGED_BY, SERVICE_NAME, Plan
from kapi.machinery import status
from kapi.machinery.tree import Object


def slices_of(client: ResourceClient, namespace: str, owner: str, manager: str) -> list[Object]:
    """The slices that a manager keeps for an owner."""
    wanted = {SERVICE_NAME: owner, MANAGED_BY: manager}
    return [
        one
        for one in client.lister.list(namespace)
        if wanted.items() <= (one["metadata"].get("labels") or {}).items()
        and not one["metadata"].get("deletionTimestamp")
    ]


async def carry_out(client: ResourceClient, namespace: str, made: Plan) -> None:
    """Raises Conflict, and what else may go wrong; a namespace or a slice that goes is none of that."""
    try:
        for one in made.create:
            await client.create(one, namespace)
        for one in made.update:
            await client.update(one, namespace)
        for one in made.delete:
            preconditions = {"uid": one["metadata"]["uid"]}
            await client.delete(one["metadata"]["name"], namespace, {"preconditions": preconditions})
    except (status.NotFound, status.Forbidden):
        return
