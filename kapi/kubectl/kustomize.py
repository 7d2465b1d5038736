"""``kapi kustomize DIR``, and ``-k DIR``: manifests that the program ``kustomize`` builds (upstream: ``cmd/kustomize``)."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.kustomization import build
from kapi.kubectl.messages import CommandError

FLAGS = ()
HELP = Help(
    "[DIRECTORY]",
    "Prints the manifests of a kustomization; the program kustomize builds them.",
    (("Print those of a directory", "kustomize overlays/production"),),
)


async def run(factory: Factory, program: str) -> int:
    arguments = factory.flags.arguments
    if len(arguments) > 1:
        raise CommandError("specify one path to a kustomization directory")
    factory.out.write(build(arguments[0] if arguments else "."))
    return 0
