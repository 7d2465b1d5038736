"""``kapi kustomize DIR``, and ``-k DIR``: manifests of a kustomization (upstream: ``cmd/kustomize``)."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.kustomization import build
from kapi.kubectl.messages import CommandError

FLAGS = (
    Flag("as-current-user", "bool", help="Functions run as the user of this process."),
    Flag("enable-alpha-plugins", "bool", help="Plugins of kustomize may run."),
    Flag("enable-helm", "bool", help="Helm charts are inflated."),
    Flag("env", "array", short="e", help="A variable of the environment of functions; may be repeated."),
    Flag("helm-api-versions", "array", help="The API versions that Helm charts are inflated for; may be repeated."),
    Flag("helm-command", default="helm", help="The program that inflates Helm charts."),
    Flag("helm-debug", "bool", help="Helm tells more."),
    Flag("helm-kube-version", help="The version of Kubernetes that Helm charts are inflated for."),
    Flag("load-restrictor", default="LoadRestrictionsRootOnly", help="LoadRestrictionsNone allows files from elsewhere."),
    Flag("mount", "array", help="A mount of the storage of functions; may be repeated."),
    Flag("network", "bool", help="Functions may use the network, when they ask for it."),
    Flag("network-name", default="bridge", help="The network of Docker in which functions run."),
    Flag("reorder", default="legacy", help="none keeps the order of the files.",
         deprecated="use the new 'sortOptions' field in kustomization.yaml instead."),
    Flag("output", short="o", help="The file for the manifests, or a directory; by default standard output."),
)  # fmt: skip
HELP = Help(
    "[DIRECTORY]",
    "Prints the manifests of a kustomization; the program kustomize builds them, or else kubectl. The flags are kustomize's.",
    ("Print those of a directory", "kustomize overlays/production"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if len(flags.arguments) > 1:
        raise CommandError("specify one path to kustomization.yaml")
    options = []
    for flag in (flag for flag in FLAGS if flags.given(flag.name)):
        value = flags[flag.name]
        given = value if isinstance(value, list) else [value]
        options += [
            f"--{flag.name}={str(one).lower() if flag.kind == 'bool' else one}"
            for one in given
            if flags.given(flag.name)
        ]
    factory.out.write(build(flags.arguments[0] if flags.arguments else ".", options))
    return 0
