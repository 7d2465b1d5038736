"""``kapi uncordon NODE`` (upstream: kubectl ``cmd/drain``)."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.drain import CORDON as FLAGS
from kapi.kubectl.drain import cordon
from kapi.kubectl.factory import Factory

__all__ = ["FLAGS", "run"]
HELP = Help(
    "NODE",
    "Marks nodes as schedulable.",
    (("Let pods come to a node again", "uncordon worker-1"),),
)


async def run(factory: Factory, program: str) -> int:
    await cordon(factory, program, "uncordon", desired=False)
    return 0
