"""``kapi changes A B``: the objects that were created, updated and deleted in a cluster between two revisions."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import shared
from kapi.kubectl.logical_clusters import FLAG, LogicalClusters
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import no_printer
from kapi.kubectl.printers.tabwriter import TabWriter
from kapi.machinery.tree import Object

FLAGS = (FLAG, *shared("output no-headers"))
_OUTPUTS = ("json", "yaml")
HELP = Help(
    "A [B]",
    "Shows what was created, updated and deleted on a test server between two revisions; B is the newest if it is not given.",
    ("Show what changed since revision 100", "changes 100"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if not 1 <= len(flags.arguments) <= 2 or not all(one.isascii() and one.isdigit() for one in flags.arguments):
        raise CommandError(
            "a revision is needed, and another one unless it is the newest: changes A [B]", usage=f"{program} changes"
        )
    if flags.get_string("output") not in ("", *_OUTPUTS):
        raise no_printer(flags.get_string("output"), _OUTPUTS)
    clusters = LogicalClusters(factory)
    request = clusters.server.get().abs_path(clusters.path_below("/kapi/changes"))
    for name, revision in zip(("from", "to"), flags.arguments, strict=False):
        request.append_param(name, revision)
    answer = await request.do()
    factory.out.write(_text(answer, flags.get_string("output"), headers=not flags.get_bool("no-headers")))
    return 0


def _text(answer: Object, output: str, *, headers: bool) -> str:
    if output == "json":
        import json

        return json.dumps(answer, indent=4) + "\n"
    if output == "yaml":
        from kapi.codecs.yaml_writing import dump_yaml

        return dump_yaml(answer).decode()
    writer = TabWriter()
    if headers and answer["changes"]:
        writer.row(["CHANGE", "RESOURCE", "NAMESPACE", "NAME", "REVISION"])
    for one in answer["changes"]:
        resource = f"{one['resource']}.{one['group']}" if one["group"] else one["resource"]
        writer.row([one["change"], resource, one["namespace"], one["name"], str(one["revision"])])
    return writer.flush()
