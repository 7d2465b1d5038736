"""Common parts of ``label`` and ``annotate``: pairs of arguments, objects, the patch (upstream: kubectl ``cmd/util``)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from kapi.client.errors import NoMatch
from kapi.kubectl.builder import builder_of, selecting_builder
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, like, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.printers.interface import Printer
from kapi.kubectl.visitor import Result
from kapi.kubectl.writing import dry_run_strategy, dry_run_suffix, field_manager, record_patch
from kapi.machinery.tree import Object

FLAGS = (
    *FILENAME,
    *PRINT,
    like("overwrite", default=False),
    Flag("list", "bool", help="Show what the objects have."),
    *shared("dry-run local selector field-selector all all-namespaces resource-version field-manager record"),
)


_SINGLE = "--resource-version may only be used with a single resource"


@dataclass(frozen=True, slots=True)
class Change:
    """The values to set and the keys to remove in ``metadata``'s ``field``: "labels" or "annotations"."""

    field: str
    new: dict[str, str]
    gone: list[str]

    def applied(self, obj: Object) -> tuple[Object, set[str], set[str]]:
        """The changed object, the keys that were added or changed, and the removed keys."""
        metadata = obj.get("metadata") or {}
        values = dict(metadata.get(self.field) or {})
        added = {key for key, value in self.new.items() if values.get(key) != value}
        values |= self.new
        removed = {key for key in self.gone if values.pop(key, None) is not None}
        if obj.get("metadata", metadata) is None:  # of a file: upstream does not set fields of null
            return obj, added, removed
        return {**obj, "metadata": {**metadata, self.field: values}}, added, removed

    @property
    def patch(self) -> Object:
        return {"metadata": {self.field: {**self.new, **dict.fromkeys(self.gone)}}}


def is_pair(argument: str) -> bool:
    """``KEY=VALUE`` or ``KEY-``."""
    return ("=" in argument and argument[0] != "=") or (argument.endswith("-") and argument != "-")


def resources_and_pairs(
    arguments: list[str], what: str, is_pair: Callable[[str], bool] = is_pair
) -> tuple[list[str], list[str]]:
    """The resources, and the pairs after them.  Raises CommandError when a resource comes after a pair."""
    resources: list[str] = []
    pairs: list[str] = []
    for one in arguments:
        if is_pair(one):
            pairs.append(one)
        elif pairs:
            raise CommandError(f"all resources must be specified before {what} changes: {one}")
        else:
            resources.append(one)
    return resources, pairs


def check(factory: Factory, resources: list[str], change: Change, what: str, file: str) -> None:
    """Raises CommandError for flags that contradict each other; ``file`` is the file's name in messages."""
    flags = factory.flags
    if flags.get_bool("list") and flags.get_string("output"):
        raise CommandError("--list and --output may not be specified together")
    files, local = flags.get_list("filename"), flags.get_bool("local")
    for flag in ("selector", "field-selector"):
        if flags.get_bool("all") and flags.get_string(flag):
            raise CommandError(f"cannot set --all and --{flag} at the same time")
    if local:
        if dry_run_strategy(flags.get_string("dry-run")) == "server":
            raise CommandError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
        if resources:
            raise CommandError(
                f"can only use local files by -f {file}.yaml or --filename={file}.json when --local=true is set"
            )
        if not files:
            raise CommandError(f"one or more files must be specified as -f {file}.yaml or --filename={file}.json")
    elif not resources and not files:
        raise CommandError("one or more resources must be specified as <resource> <name> or <resource>/<name>")
    if not change.new and not change.gone and not flags.get_bool("list"):
        raise CommandError(f"at least one {what} update is required")


def _names_one(factory: Factory, resources: list[str]) -> bool:
    """Whether the arguments are a file, a type and a name without a selector, or a TYPE/NAME."""
    files = factory.flags.get_list("filename")
    if files or factory.flags.get_string("selector"):
        return len(files) == 1 and os.path.exists(files[0])
    return len(resources) == 2 - "".join(resources).count("/")


async def objects(factory: Factory, program: str, resources: list[str], *, single_first: bool = False) -> Result:
    """The objects of the command.  Raises CommandError.

    ``single_first``: that --resource-version is for a single object is told before what is wrong with arguments.
    """
    flags = factory.flags
    version = flags.get_string("resource-version")
    try:
        if flags.get_bool("local"):
            builder = builder_of(factory, program).local()
        else:
            builder = selecting_builder(factory, program).latest()
            builder.resource_type_or_name(resources, allow_empty_selector=flags.get_bool("all"))
        result = await builder.do()
    except (CommandError, NoMatch):
        if single_first and version and not _names_one(factory, resources):
            raise CommandError(_SINGLE) from None
        raise
    if version and not result.single:
        raise CommandError(_SINGLE)
    return result


class Marker:
    """Changes objects one by one.  ``verb`` is "label" or "annotate"; ``check_values`` raises when values would be replaced."""

    def __init__(self, factory: Factory, program: str, verb: str, change: Change) -> None:
        self._program = program
        self._factory, self._manager = factory, field_manager(factory.flags, verb)
        self._change = change
        self.dry_run = dry_run_strategy(factory.flags.get_string("dry-run"))

    def versioned(self, obj: Object) -> Object:
        """The object with the version of --resource-version, if there is one."""
        if not (version := self._factory.flags.get_string("resource-version")):
            return obj
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}

    def conflicts(self, obj: Object) -> list[tuple[str, str]]:
        """The keys that have another value, with that value, unless they may be overwritten."""
        if self._factory.flags.get_bool("overwrite"):
            return []
        values = (obj.get("metadata") or {}).get(self._change.field) or {}
        return [(key, values[key]) for key, new in self._change.new.items() if key in values and values[key] != new]

    @property
    def sends(self) -> bool:
        flags = self._factory.flags
        return self.dry_run != "client" and not flags.get_bool("local") and not flags.get_bool("list")

    async def send(self, info: Info) -> None:
        patch = self._change.patch
        if cause := record_patch(self._factory, self._program):
            annotations = {**cause["metadata"]["annotations"], **(patch["metadata"].get("annotations") or {})}
            patch["metadata"]["annotations"] = annotations
        if version := self._factory.flags.get_string("resource-version"):
            patch["metadata"]["resourceVersion"] = version
        await info.patch("merge", patch, dryRun="All" if self.dry_run == "server" else None, fieldManager=self._manager)

    def show_list(self, info: Info, obj: Object, single: bool) -> None:
        out, field = self._factory.out, self._change.field
        if not single:
            out.write(f"Listing {field} for {info.mapping.kind}.{info.mapping.group}/{info.name}:\n")
        for key, value in ((obj.get("metadata") or {}).get(field) or {}).items():
            out.write(f"{'' if single else ' '}{key}={value}\n")

    def printer(self, operation: str) -> Printer:
        """For several objects in turn; ``label`` has one for each object, so that nothing separates what it prints."""
        return printer_for(self._factory.flags, operation + dry_run_suffix(self.dry_run))
