"""``kapi scale`` (upstream: kubectl ``cmd/scale``)."""

from __future__ import annotations

import contextlib

from twisted.internet.task import deferLater

from kapi.client.errors import StatusError
from kapi.kubectl.builder import builder_of
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.writing import dry_run_strategy, dry_run_suffix, record_patch
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object

POLL = 1.0  # seconds
FLAGS = (
    *FILENAME,
    *PRINT,
    *shared("dry-run all resource-version selector record"),
    Flag("current-replicas", "int", default=-1, help="Only if the object has this size now; -1 for any."),
    Flag("replicas", "int", required=True, help="The new size."),
    Flag("timeout", "duration", default=0.0, help="How long to wait for the pods, such as 1s, 2m or 3h; 0 does not wait."),
)  # fmt: skip
HELP = Help(
    "[--resource-version=VERSION] [--current-replicas=COUNT] --replicas=COUNT (-f FILENAME | TYPE NAME)",
    "Sets how many pods deployments, replica sets, replication controllers and stateful sets have, and all else with a scale.",
    ("Set the size of a deployment", "scale deployment/web --replicas=3"),
    ("Set it only if it is 2 now", "scale --current-replicas=2 --replicas=3 deployment/web"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run, replicas = dry_run_strategy(flags.get_string("dry-run")), flags.get_int("replicas")
    printer = printer_for(flags, f"scaled{dry_run_suffix(dry_run)}")
    if replicas < 0:
        raise CommandError("The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0")
    if flags.get_int("current-replicas") < -1:
        raise CommandError("The --current-replicas must specify an integer of -1 or greater")
    builder = builder_of(factory, program).labels(flags.get_string("selector"))
    if not flags.get_list("filename"):
        builder.latest()
    result = await builder.resource_type_or_name(flags.arguments, allow_empty_selector=flags.get_bool("all")).do()
    infos = await result.infos()
    if flags.get_string("resource-version") and len(infos) > 1:
        raise CommandError("cannot use --resource-version with multiple resources")
    if not infos:
        raise_errors(result.errors)
        raise CommandError("no objects passed to scale")
    for info in infos:
        if dry_run != "client":
            await _scale(factory, info, replicas, dry_run)
            if cause := record_patch(factory, program):
                known = Info(info.client, info.mapping, info.namespace, info.name)
                with contextlib.suppress(StatusError):
                    await known.patch("merge", cause, dryRun="All" if dry_run == "server" else None)
        obj: Object = info.object or {}
        if info.mapping.group in ("", "apps"):
            if not isinstance(obj.get("spec", {}), dict):
                raise CommandError("value cannot be set because .spec is not a map[string]interface{}")
            obj = {**obj, "spec": {**(obj.get("spec") or {}), "replicas": replicas}}
        factory.out.write(printer.print(obj))
    raise_errors(result.errors)
    return 0


async def _scale(factory: Factory, info: Info, replicas: int, dry_run: str) -> None:
    """Raises CommandError and StatusError."""
    flags = factory.flags
    size, version = flags.get_int("current-replicas"), flags.get_string("resource-version")
    scale = Info(info.client, info.mapping, info.namespace, info.name, subresource="scale")
    options = {"dryRun": "All" if dry_run == "server" else None}
    if size == -1 and not version:
        await scale.patch("merge", {"spec": {"replicas": replicas}}, **options)
    else:
        await scale.get()
        found: Object = scale.object or {}
        current = (found.get("spec") or {}).get("replicas", 0)
        if size not in (-1, current):
            raise CommandError(f"Expected replicas to be {size}, was {current}")
        if version and found["metadata"].get("resourceVersion") != version:
            raise CommandError(
                f"Expected resource version to be {version}, was {found['metadata'].get('resourceVersion')}"
            )
        body = {**found, "spec": {**(found.get("spec") or {}), "replicas": replicas}}
        scale.object = await scale.request(scale.client.put()).params(options).body(body).do()
    if flags.get_duration("timeout") and dry_run == "none":
        await _wait(factory, scale, replicas)


async def _wait(factory: Factory, scale: Info, replicas: int) -> None:
    """Raises CommandError when there are not as many pods in time."""
    rounds = int(factory.flags.get_duration("timeout") // POLL) + 1
    for _ in range(rounds):
        await scale.get()
        if ((scale.object or {}).get("status") or {}).get("replicas", 0) == replicas:
            return
        await deferLater(factory.reactor, POLL)
    raise CommandError(f"timed out waiting for {quote(scale.name)} to be synced")
