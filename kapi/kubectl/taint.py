"""``kapi taint`` (upstream: kubectl ``cmd/taint``)."""

from __future__ import annotations

from kapi.client.errors import NoMatch
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Help
from kapi.kubectl.describers.cluster import taint_text
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import PRINT, like, shared
from kapi.kubectl.marks import resources_and_pairs
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.writing import dry_run_strategy, field_manager, validation
from kapi.machinery.names import label_value, qualified_name
from kapi.machinery.tree import Object, dig

FLAGS = (*PRINT, *shared("selector all field-manager dry-run validate"), like("overwrite", default=False))
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
HELP = Help(
    "NODE NAME KEY[=VALUE]:EFFECT ...",
    "Adds taints to nodes; KEY:EFFECT- and KEY- take them away.",
    ("Add a taint", "taint nodes worker-1 dedicated=ci:NoSchedule"),
    ("Take it away", "taint nodes worker-1 dedicated-"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    factory.check_namespace()
    factory.check_config()
    dry_run, fields = dry_run_strategy(flags.get_string("dry-run")), validation(flags.get_string("validate"))
    resources, changes = resources_and_pairs(flags.arguments, "taint", _is_change)
    if not resources:
        raise CommandError("one or more resources must be specified as <resource> <name>")
    if not changes:
        raise CommandError("at least one taint update is required")
    try:
        add, remove = _parse(changes)
    except ValueError as error:
        raise CommandError(str(error), usage=f"{program} taint") from None
    try:
        mapping = await factory.mapper.resource_for(resources[0].lower())
    except NoMatch as error:
        raise CommandError(str(error), plain=True) from None
    if mapping.kind != "Node":
        raise CommandError(f"invalid resource type {resources[0].lower()}, only node types are supported")
    both = [
        f"{gone['key']}={gone['effect']}" for one in add for gone in remove
        if one["key"] == gone["key"] and gone["effect"] in ("", one["effect"])
    ]  # fmt: skip
    if both:
        raise CommandError(
            f"can not both modify and remove the following taint(s) in the same command: {', '.join(both)}"
        )
    everything, labels = flags.get_bool("all"), flags.get_string("selector")
    if everything and labels:
        raise CommandError("setting 'all' parameter with a non empty selector is prohibited")
    if not everything and not labels and len(resources) < 2:
        raise CommandError("at least one resource name must be specified since 'all' parameter is not set")
    names = [] if everything or labels else resources[1:]
    builder = (
        Builder(factory, program).namespace(factory.namespace).labels(labels).select_all(everything).flatten().latest()
    )
    if everything or labels:
        builder.resource_type_or_name(["node"], allow_empty_selector=False)
    result = await builder.resource_names("node", names).known().do()
    async for info in result.visit():
        obj = info.object or {}
        with result.caught():
            operation, taints = _changed(obj, add, remove, overwrite=flags.get_bool("overwrite"))
            if dry_run == "client":
                obj = {**obj, "spec": {**(obj.get("spec") or {}), "taints": taints}}
            else:
                version = obj["metadata"]["resourceVersion"]
                info.object = None
                await info.patch(
                    "merge",
                    {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}},
                    fieldManager=field_manager(flags, "taint"),
                    dryRun="All" if dry_run == "server" else None,
                    fieldValidation=fields,
                )
                obj = info.object or {}
            factory.out.write(printer_for(flags, operation, typed=dry_run != "client").print(obj))
    result.finish()
    return 0


def _is_change(argument: str) -> bool:
    return "=" in argument or ":" in argument or argument.endswith("-")


def _parse(changes: list[str]) -> tuple[list[Object], list[Object]]:
    """Taints to add and to remove.  Raises ValueError."""
    add: list[Object] = []
    remove: list[Object] = []
    for text in changes:
        taint = _taint(text.removesuffix("-"))
        if text.endswith("-"):
            remove.append(taint)
            continue
        if not taint["effect"]:
            raise ValueError(f"invalid taint spec: {text}")
        if any(one["key"] == taint["key"] and one["effect"] == taint["effect"] for one in add):
            shown = f"{{{taint['key']} {taint['value']} {taint['effect']} <nil>}}"
            raise ValueError(f"duplicated taints with the same key and effect: {shown}")
        add.append(taint)
    return add, remove


def _taint(text: str) -> Object:
    """``key=value:effect``, ``key:effect`` or ``key``.  Raises ValueError."""
    given, *effects = text.split(":")
    key, *values = given.split("=") if effects else [given]
    if len(effects) > 1 or len(values) > 1:
        raise ValueError(f"invalid taint spec: {text}")
    if effects and effects[0] not in _EFFECTS:
        raise ValueError(f"invalid taint effect: {effects[0]}, unsupported taint effect")
    value = values[0] if values else ""
    if problems := label_value(value) or qualified_name(key):
        raise ValueError(f"invalid taint spec: {text}, {'; '.join(problems)}")
    return {"key": key, "value": value, "effect": effects[0] if effects else ""}


def _same(one: Object, other: Object) -> bool:
    return bool(one["key"] == other["key"] and one["effect"] == other["effect"])


def _changed(node: Object, add: list[Object], remove: list[Object], *, overwrite: bool) -> tuple[str, list[Object]]:
    """The operation, and the new taints.  Raises CommandError and Aggregate."""
    old = dig(node, "spec", "taints") or []
    exists = [one["key"] for one in add if any(_same(one, before) for before in old)]
    if exists and not overwrite:
        raise CommandError(
            f"node {node['metadata']['name']} already has {','.join(exists)} taint(s) with same effect(s) "
            "and --overwrite is false"
        )
    taints = [{key: value for key, value in one.items() if value} for one in add]
    taints += [one for one in old if not any(_same(one, new) for new in add)]
    added, removed = len(taints) != len(old), False
    errors: list[BaseException] = []
    for gone in remove:
        kept = [one for one in taints if not (one["key"] == gone["key"] and gone["effect"] in ("", one["effect"]))]
        removed = len(kept) != len(taints)
        taints = kept
        if not removed:
            shown = taint_text(gone) if gone["effect"] else gone["key"]
            errors.append(CommandError(f'taint "{shown}" not found'))
    raise_errors(errors)
    return "modified" if added and removed or overwrite else "tainted" if added else "untainted", taints
