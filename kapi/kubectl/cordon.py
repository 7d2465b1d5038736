"""``kapi cordon NODE`` (upstream: kubectl ``cmd/drain``)."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.drain import CORDON as FLAGS
from kapi.kubectl.drain import cordon
from kapi.kubectl.factory import Factory

__all__ = ["FLAGS", "run"]
HELP = Help(
    "NODE",
    "Marks nodes as unschedulable.",
    (("Keep new pods away from a node", "cordon worker-1"),),
)


async def run(factory: Factory, program: str) -> int:
    await cordon(factory, program, "cordon", desired=True)
    return 0
