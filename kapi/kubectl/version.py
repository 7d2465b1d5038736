"""``kapi version`` (upstream: kubectl ``cmd/version``): the client's version is kapi's API level."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.messages import CommandError
from kapi.machinery.tree import Object
from kapi.machinery.version import VERSION

FLAGS = (Flag("client", "bool", help="The version of the client only."), *shared("output"))
_SKEW = 1  # minor versions
HELP = Help(
    "",
    "Shows the versions of client and server.",
    ("Show both", "version"),
    ("Show the client's as YAML", "version --client -o yaml"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    client_only, output = flags.get_bool("client"), flags.get_string("output")
    if not client_only:
        factory.check_config()
    if flags.arguments and not client_only:
        raise CommandError(f"extra arguments: [{' '.join(flags.arguments)}]")
    if output not in ("", "yaml", "json"):
        raise CommandError("--output must be 'yaml' or 'json'")
    found: Object = {"clientVersion": VERSION}
    problem: Exception | None = None
    if not client_only:
        from kapi.client.errors import ClientError, StatusError

        try:
            found["serverVersion"] = await factory.client().get().abs_path("/version").do()
        except (ClientError, StatusError) as error:
            problem = error
    factory.out.write(_text(found, output))
    if "serverVersion" in found and (warning := _skew(VERSION, found["serverVersion"])):
        if flags.get_bool("warnings-as-errors"):
            raise CommandError(warning)
        factory.err.write(f"Warning: {warning}\n")
    if problem is not None:
        raise problem
    return 0


def _text(found: Object, output: str) -> str:
    if output == "json":
        import json

        return json.dumps(found, indent=2) + "\n"
    if output == "yaml":
        from kapi.codecs.yaml_writing import dump_yaml

        return dump_yaml(found).decode() + "\n"
    names = (("Client", "clientVersion"), ("Server", "serverVersion"))
    return "".join(f"{name} Version: {found[key]['gitVersion']}\n" for name, key in names if key in found)


def _skew(client: Object, server: Object) -> str:
    """A warning when the versions are too far apart."""
    mine, theirs = (
        tuple(int(part) for part in one["gitVersion"].lstrip("v").split(".")[:2]) for one in (client, server)
    )
    if mine[0] == theirs[0] and abs(mine[1] - theirs[1]) <= _SKEW:
        return ""
    shown = [".".join(map(str, one)) for one in (mine, theirs)]
    return (
        f"version difference between client ({shown[0]}) and server ({shown[1]}) exceeds the supported minor version skew "
        f"of +/-{_SKEW}"
    )
