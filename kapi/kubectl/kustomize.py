"""``kapi kustomize DIR``, and ``-k DIR``: manifests of a kustomization (upstream: ``cmd/kustomize``)."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.kustomization import build
from kapi.kubectl.messages import CommandError

FLAGS = ()
HELP = Help(
    "[DIRECTORY]",
    "Prints the manifests of a kustomization; the program kustomize builds them, or else kubectl.",
    (("Print those of a directory", "kustomize overlays/production"),),
)


async def run(factory: Factory, program: str) -> int:
    arguments = factory.flags.arguments
    if len(arguments) > 1:
        raise CommandError("specify one path to kustomization.yaml")
    factory.out.write(build(arguments[0] if arguments else "."))
    return 0
