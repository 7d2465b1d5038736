"""``kapi patch`` (upstream: kubectl ``cmd/patch``)."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

from kapi.client.errors import StatusError
from kapi.client.rest import PatchType
from kapi.kubectl.builder import builder_of
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.writing import dry_run_strategy, field_manager, record_patch
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import quote
from kapi.machinery.tree import Tree

_TYPES: dict[str, PatchType] = {"json": "json", "merge": "merge", "strategic": "strategic"}
_MEDIA = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
FLAGS = (
    *FILENAME,
    *PRINT,
    Flag("patch", short="p", help="The patch, in JSON or YAML."),
    Flag("patch-file", help="A file with the patch."),
    Flag("type", default="strategic", help="The kind of patch: strategic, merge or json."),
    *shared("dry-run local field-manager subresource record"),
)
HELP = Help(
    "(-f FILENAME | TYPE NAME) [-p PATCH | --patch-file FILE]",
    "Changes fields of objects by a patch: strategic (lists are merged by the keys of their type), merge (RFC 7386) or json\n"
    "(RFC 6902). Custom resources take merge and json.",
    ("Mark a node as unschedulable", """patch node worker-1 -p '{"spec":{"unschedulable":true}}'"""),
    ("Change one value by its place", """patch pod web --type=json -p '[{"op":"remove","path":"/metadata/labels/a"}]'"""),
    ("Change the size", """patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":2}}'"""),
)  # fmt: skip


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run, local = dry_run_strategy(flags.get_string("dry-run")), flags.get_bool("local")
    factory.check_namespace()
    kind, patch = _kind_and_patch(factory, dry_run)
    builder = builder_of(factory, program).subresource(flags.get_string("subresource"))
    if local:
        builder.local()
    elif not flags.get_list("filename"):
        builder.latest()
    result = await builder.resource_type_or_name(flags.arguments, allow_empty_selector=False).do()
    count = 0
    async for info in result.visit():
        count += 1
        before = info.object
        with result.caught():
            if local or dry_run == "client":
                from kapi.kubectl.local_patch import patched, unstructured

                text = patch if isinstance(patch, bytes) else json_text(patch).encode()
                info.object = unstructured(patched(before or {}, text, kind).tree)
            else:
                await _send(info, kind, patch, factory, dry_run)
            operation = "patched" if before != info.object else "patched (no change)"
            if dry_run != "client" and not local and (cause := record_patch(factory, program)):
                with contextlib.suppress(CommandError, StatusError):
                    await _send(info, "merge", cause, factory, dry_run)
            factory.out.write(printer_for(flags, operation).print(info.object or {}))
    result.finish()
    if not count:
        raise CommandError("no objects passed to patch")
    return 0


def _kind_and_patch(factory: Factory, dry_run: str) -> tuple[PatchType, Tree]:
    """Raises CommandError."""
    from kapi.codecs import yaml_reading

    flags = factory.flags
    text, file = flags.get_string("patch"), flags.get_string("patch-file")
    if text and file:
        raise CommandError("cannot specify --patch and --patch-file together")
    if not text and not file:
        raise CommandError("must specify --patch or --patch-file containing the contents of the patch")
    if flags.get_bool("local") and flags.arguments:
        raise CommandError("cannot specify --local and server resources")
    if flags.get_bool("local") and dry_run == "server":
        raise CommandError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    given = flags.get_string("type")
    kind = _TYPES.get(given.lower())
    if kind is None:
        raise CommandError(f"--type must be one of [{' '.join(_TYPES)}], not {quote(given)}")
    data = text.encode()
    if file:
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            raise CommandError(
                f"unable to read patch file: open {file}: {(error.strerror or str(error)).lower()}"
            ) from None
    if data.lstrip().startswith(b"{") and not flags.get_bool("local"):
        return kind, data  # JSON is sent as it is
    try:
        return kind, yaml_reading.loads(data, math.inf)[0]
    except ValueError as error:
        raise CommandError(f"unable to parse {quote(text)}: {error}") from None


async def _send(info: Info, kind: PatchType, patch: Tree, factory: Factory, dry_run: str) -> None:
    """Raises CommandError and StatusError."""
    try:
        await info.patch(
            kind,
            patch,
            dryRun="All" if dry_run == "server" else None,
            fieldManager=field_manager(factory.flags, "patch"),
        )
    except StatusError as error:
        if error.reason != "UnsupportedMediaType":
            raise
        mapping = info.mapping
        raise CommandError(
            f"{_MEDIA[kind]} is not supported by {mapping.group_version}, Kind={mapping.kind}: {error.message}"
        ) from None
