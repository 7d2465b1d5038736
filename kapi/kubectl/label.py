"""``kapi label`` (upstream: kubectl ``cmd/label``)."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.marks import FLAGS as FLAGS
from kapi.kubectl.marks import Change, Marker, check, objects, resources_and_pairs
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.writing import dry_run_strategy, recorded
from kapi.machinery.golang import quote
from kapi.machinery.names import label_value
from kapi.machinery.tree import Object

HELP = Help(
    "[--overwrite] (-f FILENAME | TYPE NAME) KEY=VALUE ... KEY- ...",
    "Sets labels of objects, and removes those that are given as KEY-. A label that has another value stays unless --overwrite\n"
    "is given.",
    ("Add a label to a pod", "label pods web-0 tier=front"),
    ("Replace a value", "label --overwrite pods web-0 tier=back"),
    ("Remove a label from all pods", "label pods --all tier-"),
)


async def run(factory: Factory, program: str) -> int:
    dry_run_strategy(factory.flags.get_string("dry-run"))
    resources, pairs = resources_and_pairs(factory.flags.arguments, "label")
    change = _change(pairs)
    factory.check_namespace()
    check(factory, resources, change, "label", "pod")
    marker = Marker(factory, program, "label", change)
    result = await objects(factory, program, resources)
    async for info in result.visit():
        obj = info.object or {}
        with result.caught():
            if conflicts := marker.conflicts(obj):
                raise_errors(
                    [
                        CommandError(f"'{key}' already has a value ({value}), and --overwrite is false")
                        for key, value in conflicts
                    ]
                )
            obj, added, removed = change.applied(obj)
            obj = marker.versioned(obj)
            if marker.sends:
                obj = recorded(factory, program, obj)
                _tell_missing(factory, info.object or {}, change)
                if added or removed:
                    await marker.send(info)
            if factory.flags.get_bool("list"):
                marker.show_list(info, obj, result.single)
            else:
                factory.out.write(marker.printer(_operation(added, removed)).print(obj))
    result.finish()
    return 0


def _tell_missing(factory: Factory, obj: Object, change: Change) -> None:
    labels = (obj.get("metadata") or {}).get("labels") or {}
    for key in change.gone:
        if key not in labels:
            factory.out.write(f"label {quote(key)} not found.\n")


def _operation(added: set[str], removed: set[str]) -> str:
    if added and removed:
        return "modified"
    return "labeled" if added else "unlabeled" if removed else "not labeled"


def _change(pairs: list[str]) -> Change:
    """Raises CommandError."""
    new: dict[str, str] = {}
    gone: list[str] = []
    for pair in pairs:
        key, *values = pair.split("=")
        if len(values) > 1:
            raise CommandError(f"invalid label spec: {pair}")
        if not values:
            gone.append(pair.removesuffix("-"))
            continue
        if problems := label_value(values[0]):
            raise CommandError(f"invalid label value: {quote(pair)}: {';'.join(problems)}")
        new[key] = values[0]
    if any(key in new for key in gone):
        raise CommandError("can not both modify and remove a label in the same command")
    return Change("labels", new, gone)
