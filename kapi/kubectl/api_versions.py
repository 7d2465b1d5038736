"""``kapi api-versions`` (upstream: kubectl ``cmd/apiresources/apiversions.go``)."""

from __future__ import annotations

from kapi.client.errors import ConnectionFailed
from kapi.kubectl.api_resources import discovered
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError, inner_text
from kapi.machinery.gvk import GroupVersion

FLAGS: tuple[Flag, ...] = ()
HELP = Help(
    "",
    "Lists the group versions that the server has, as manifests name them in apiVersion.",
    (("List them", "api-versions"),),
)


async def run(factory: Factory, program: str) -> int:
    if factory.flags.arguments:
        raise CommandError(
            f"unexpected arguments: [{' '.join(factory.flags.arguments)}]", usage=f"{program} api-versions"
        )
    try:
        found = await discovered(factory)
    except ConnectionFailed as error:
        why = inner_text(error, factory.config.host)
        raise CommandError(f"couldn't get available api versions from server: {why}") from None
    names = [str(GroupVersion(group.name, version)) for group in found.groups for version in group.versions]
    factory.out.write("".join(f"{name}\n" for name in sorted(names)))
    return 0
