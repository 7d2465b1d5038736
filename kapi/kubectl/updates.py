"""Changes objects that were read by patches, as ``set`` and ``rollout`` do (upstream: kubectl ``cmd/set/helper.go``)."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

from kapi.client.errors import ClientError, StatusError
from kapi.client.rest import PatchType
from kapi.client.three_way import OpenAPISchema, three_way_patch
from kapi.kubectl.builder import builder_of
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.visitor import Result
from kapi.kubectl.writing import dry_run_strategy, dry_run_suffix, field_manager, recorded
from kapi.machinery import tree
from kapi.machinery.tree import Object

#: the path to the pod's spec in an object of each kind
_SPECS = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template", "spec"),
    ),
}
#: changes a copy of an object in place; raises CommandError when it cannot
Change = Callable[[Object], None]
#: changes the spec of an object's pods; returns the problems
ChangeSpec = Callable[[Info, Object], list[str]]
#: the flags of commands that change the pods of objects
OBJECTS = (
    *FILENAME,
    *PRINT,
    *shared("dry-run all selector local field-manager"),
)  # fmt: skip
CONTAINERS = Flag(
    "containers", short="c", default="*", help="The containers that are meant, by name; * stands for any characters."
)


def go_type(info: Info) -> str:
    """Go's name of the type in messages."""
    return f"*{info.mapping.version}.{info.mapping.kind}"


def has_pods(info: Info) -> bool:
    """Whether objects of this kind make pods, or are pods."""
    return info.mapping.kind in _SPECS


def pod_spec(obj: Object, info: Info) -> Object:
    """The spec of the pods that the object makes, or of the pod.  Raises CommandError."""
    path = _SPECS.get(info.mapping.kind)
    if path is None:
        raise CommandError(f"the object is not a pod or does not have a pod template: {go_type(info)}")
    for field in path:
        obj = obj[field]
    return obj


def is_local(factory: Factory) -> bool:
    """Whether ``--local`` is given, which not all of these commands have."""
    return factory.flags.has("local") and factory.flags.get_bool("local")


async def read_objects(factory: Factory, program: str, resources: Sequence[str], *, whole: bool = True) -> Result:
    """The current objects of arguments, files and selector.  ``whole``: a type alone means all its objects."""
    flags = factory.flags
    builder = builder_of(factory, program).labels(flags.get_string("selector") if flags.has("selector") else "").known()
    if is_local(factory):
        return await builder.local().resource_type_or_name(resources).do()
    builder.latest()
    return await builder.resource_type_or_name(resources, allow_empty_selector=whole).do()


async def given_objects(factory: Factory, program: str, *, known: bool = False) -> Result:
    """The current objects that arguments name, or the objects in files; ``known``: of Kubernetes' own kinds."""
    builder = builder_of(factory, program)
    if known:
        builder.known()
    if not factory.flags.get_list("filename"):
        builder.latest()
    return await builder.resource_type_or_name(factory.flags.arguments, allow_empty_selector=False).do()


class Updates:
    """Patches objects; ``manager`` is the name of the owner of the changed fields."""

    def __init__(self, factory: Factory, manager: str, dry_run: str = "none") -> None:
        self._factory, self._manager, self._dry_run = factory, manager, dry_run
        self._schemas: dict[tuple[str, str, str], OpenAPISchema | None] = {}

    async def patch(self, info: Info, changed: Object) -> bool:
        """Changes the object on the server into ``changed``; ``info`` has the result.  Returns whether it differed.

        With ``--local`` no request is sent.  Raises StatusError, and CommandError for an object without a name.
        """
        if is_local(self._factory):
            from kapi.kubectl.local_patch import decoded

            differed = changed != info.object
            info.object = decoded(changed)
            return differed
        kind, patch = await self.difference(info, changed)
        if patch and self._dry_run == "client":
            info.object = changed
        elif patch:
            await info.patch(
                kind, patch, dryRun="All" if self._dry_run == "server" else None, fieldManager=self._manager
            )
        return bool(patch)

    async def difference(self, info: Info, changed: Object) -> tuple[PatchType, Object]:
        """The patch from the object to ``changed``, and its type."""
        before, mapping = info.object or {}, info.mapping
        schema = await self._schema(mapping.group, mapping.version, mapping.kind)
        return "merge" if schema is None else "strategic", three_way_patch(before, changed, before, schema)

    async def _schema(self, group: str, version: str, kind: str) -> OpenAPISchema | None:
        key = (group, version, kind)
        if key not in self._schemas:
            try:
                document = await self._factory.openapi(group, version) or {}
            except (StatusError, ClientError):
                document = {}
            self._schemas[key] = OpenAPISchema.of_kind(document, group, version, kind)
        return self._schemas[key]


def changed(info: Info, change: Change) -> Object:
    """A changed copy of the object.  Raises CommandError."""
    found: Object = tree.copy(info.object or {})
    change(found)
    return found


def changed_pods(info: Info, change: ChangeSpec) -> tuple[Object, list[str]]:
    """A copy of the object with a changed pod spec, and the problems.  Raises CommandError."""
    problems: list[str] = []
    return changed(info, lambda obj: problems.extend(change(info, pod_spec(obj, info)))), problems


def containers_of(spec: Object) -> list[Object]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def selected(spec: Object, pattern: str) -> list[Object]:
    return [one for one in containers_of(spec) if fnmatch.fnmatchcase(one["name"], pattern)]


def check(factory: Factory, dry_run: str, resources: list[str]) -> list[BaseException]:
    """The errors of flags and arguments."""
    flags = factory.flags
    problems = []
    if flags.get_bool("all") and flags.get_string("selector"):
        problems.append("cannot set --all and --selector at the same time")
    if not resources and not flags.get_list("filename"):
        problems.append("one or more resources must be specified as <resource> <name> or <resource>/<name>")
    if flags.get_bool("local") and dry_run == "server":
        problems.append("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    return [CommandError(problem) for problem in problems]


async def update_pods(
    factory: Factory, program: str, resources: list[str], operation: str, failed: str, change: ChangeSpec,
    *, also_unchanged: bool = False,
) -> int:  # fmt: skip
    """Changes the pods of objects.  ``failed`` is before the server's message; ``also_unchanged``: prints all objects."""
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    printer = printer_for(flags, operation + dry_run_suffix(dry_run), typed=True)
    result = await read_objects(factory, program, resources, whole=flags.get_bool("all"))
    infos = await result.all()
    updates = Updates(factory, field_manager(flags, "set"), dry_run)
    errors: list[BaseException] = []
    for info in infos:
        try:
            wanted, problems = changed_pods(info, change)
            wanted = recorded(factory, program, wanted)
        except CommandError as error:
            errors.append(CommandError(f"error: {object_name(factory, info)} {error}\n"))
            continue
        errors += [CommandError(problem) for problem in problems]
        try:
            if await updates.patch(info, wanted) or also_unchanged:
                factory.out.write(printer.print(info.object or {}))
        except (CommandError, StatusError) as error:
            errors.append(CommandError(f"{failed} {getattr(error, 'message', error)}"))
    raise_errors(errors)
    return 0


def object_name(factory: Factory, info: Info) -> str:
    """As kubectl's ``ObjectName``, which ends a line after what has a group and is of no server."""
    if is_local(factory):
        return f"{info.text}\n" if info.mapping.group else info.text
    return f"{info.mapping.name}/{info.name}"
