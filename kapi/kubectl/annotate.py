"""``kapi annotate`` (upstream: kubectl ``cmd/annotate``)."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import like
from kapi.kubectl.marks import FLAGS as MARKING
from kapi.kubectl.marks import Change, Marker, check, objects, resources_and_pairs
from kapi.kubectl.messages import CommandError
from kapi.kubectl.writing import dry_run_strategy

FLAGS = tuple(like("recursive", default=True) if flag.name == "recursive" else flag for flag in MARKING)
_CAUSE = "kubernetes.io/change-cause"  # may be overwritten without --overwrite
HELP = Help(
    "[--overwrite] (-f FILENAME | TYPE NAME) KEY=VALUE ... KEY- ...",
    "Sets annotations of objects, and removes those that are given as KEY-. A value that is there stays unless --overwrite is\n"
    "given.",
    ("Annotate a pod", "annotate pods web-0 note='the first one'"),
    ("Replace the value", "annotate --overwrite pods web-0 note='still the first one'"),
    ("Remove the annotation", "annotate pods web-0 note-"),
)


async def run(factory: Factory, program: str) -> int:
    dry_run_strategy(factory.flags.get_string("dry-run"))
    resources, pairs = resources_and_pairs(factory.flags.arguments, "annotation")
    new = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    change = Change("annotations", new, [pair.removesuffix("-") for pair in pairs if "=" not in pair])
    check(factory, resources, change, "annotation", "rsrc")
    if both := [key for key in change.gone if key in new]:
        raise CommandError(
            f"can not both modify and remove the following annotation(s) in the same command: {', '.join(both)}"
        )
    marker = Marker(factory, program, "annotate", change)
    printer = marker.printer("annotated")
    result = await objects(factory, program, resources, single_first=True)
    async for info in result.visit():
        obj = info.object or {}
        with result.caught():
            if conflicts := [pair for pair in marker.conflicts(obj) if pair[0] != _CAUSE]:
                shown = "; ".join(f"'{key}' already has a value ({value})" for key, value in conflicts)
                raise CommandError(f"--overwrite is false but found the following declared annotation(s): {shown}")
            obj = marker.versioned(change.applied(obj)[0])
            if marker.sends:
                await marker.send(info)
                obj = info.object or {}
            if factory.flags.get_bool("list"):
                marker.show_list(info, obj, result.single)
            else:
                factory.out.write(printer.print(obj))
    result.finish()
    return 0
