"""``kapi apply view-last-applied``, ``set-last-applied`` and ``edit-last-applied`` (upstream: kubectl ``cmd/apply``).

The last applied manifest is in an annotation of the object; client-side apply compares the next manifest with it.
"""

from __future__ import annotations

import json

from kapi.client.errors import StatusError
from kapi.kubectl.builder import builder_of
from kapi.kubectl.command import Command, Help
from kapi.kubectl.edit import Editing, Results
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.writing import (
    LAST_APPLIED,
    dry_run_strategy,
    dry_run_suffix,
    field_manager,
    validation,
    where,
    with_source,
)
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import quote
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object, dig

_HEADER = """\
# Please edit the 'last-applied-configuration' annotations below.
# Lines beginning with a '#' will be ignored, and an empty file will abort the edit.
#
"""


def _manifest(obj: Object) -> str:
    """The last applied manifest in JSON; "" when there is none."""
    found: str = dig(obj, "metadata", "annotations", LAST_APPLIED) or ""
    return found


def _patch(manifest: Object) -> Object:
    """The merge patch that makes ``manifest`` the last applied one."""
    return {"metadata": {"annotations": {LAST_APPLIED: json_text(manifest) + "\n"}}}


async def _view(factory: Factory, program: str) -> int:
    flags = factory.flags
    whole = bool(flags.get_string("namespace"))  # as kubectl, which takes one for the other
    if whole and flags.get_bool("all") and len(flags.arguments) == 1 and "/" not in flags.arguments[0]:
        # as kubectl, whose builder takes the type alone for an empty selector
        raise CommandError("setting 'all' parameter but found a non empty selector. ")
    manifests: list[str] = []

    async def check(info: Info) -> None:
        if not _manifest(info.object or {}):
            problem = f"no last-applied-configuration annotation found on resource: {info.name}\n"
            raise CommandError(f"error when {problem} {quote(info.source)}: <nil>")

    builder = builder_of(factory, program).latest().checked(check).labels(flags.get_string("selector"))
    builder.select_all(flags.get_bool("all"))
    result = await builder.resource_type_or_name(flags.arguments, allow_empty_selector=whole).do()
    async for info in result.visit(to_first_error=True):
        if text := _manifest(info.object or {}):  # without a file kubectl says nothing of one that has none
            manifests.append(text)
    raise_errors(result.errors)
    output = flags.get_string("output")
    if output not in ("json", "yaml") and manifests:
        raise CommandError(
            f"Unexpected -o output mode: {output}, the flag 'output' must be one of yaml|json",
            usage=f"{program} apply view-last-applied",
        )
    for text in manifests:
        if output == "json":
            factory.out.write(json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n")
        else:
            from kapi.codecs.yaml_writing import dump_yaml

            factory.out.write(dump_yaml(json.loads(text)).decode())
    return 0


async def _set(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    factory.check_namespace()
    printer = printer_for(flags, f"configured{dry_run_suffix(dry_run)}")
    changes: list[tuple[Info, Object]] = []

    async def check(info: Info) -> None:
        manifest = info.object or {}
        try:
            await info.get()
        except NotFound:
            raise
        except StatusError as error:
            raise with_source(
                f"retrieving current configuration of:\n{where(info)}\nfrom server for:", info, error
            ) from None
        before = _manifest(info.object or {})
        if not before and not flags.get_bool("create-annotation"):
            raise CommandError(
                f"no last-applied-configuration annotation found on resource: {info.name}, to create the annotation, run the "
                "command with --create-annotation"
            )
        if before and json.loads(before) == manifest:
            factory.out.write(f"set-last-applied {info.name}: no changes required.\n")
        else:
            changes.append((info, _patch(manifest)))

    result = await builder_of(factory, program).checked(check).do()
    async for _ in result.visit(to_first_error=True):
        pass
    raise_errors(result.errors)
    for info, patch in changes:
        if dry_run != "client":
            await info.patch("merge", patch, dryRun="All" if dry_run == "server" else None)
        factory.out.write(printer.print(info.object or {}))
    return 0


class _EditingManifests(Editing):
    """Edits manifests, which have no uid and differ from the objects on the server."""

    header = _HEADER

    async def send(self, infos: list[Info], results: Results) -> None:
        flags = self._factory.flags
        manager = field_manager(flags, "client-side-apply")
        for info in infos:
            original, obj = self.original(info), info.object or {}
            changed = obj != original.object
            if changed:
                sent = Info(info.client, info.mapping, self._factory.namespace, info.name)
                await sent.patch("merge", _patch(obj), fieldManager=manager)
            self._factory.out.write(printer_for(flags, "edited" if changed else "skipped").print(obj))


async def _edit(factory: Factory, program: str) -> int:
    result = await builder_of(factory, program).latest().resource_type_or_name(factory.flags.arguments).do()
    infos = await result.all()
    manifests = []
    for info in infos:
        if text := _manifest(info.object or {}):
            info.object = json.loads(text)
            manifests.append(info)
    if not manifests:
        raise CommandError(
            "no last-applied-configuration annotation found on resources, to create the annotation, use command "
            f"`{program} apply set-last-applied --create-annotation`"
        )
    fields = validation(factory.flags.get_string("validate"))
    return await _EditingManifests(factory, program, manifests, fields).run()


COMMANDS = (
    Command(
        "view-last-applied", "Show the last applied manifest of objects", _view,
        Help(
            "(TYPE [NAME | -l label] | TYPE/NAME | -f FILENAME)", "",
            ("Show that of a deployment", "apply view-last-applied deployment/web"),
        ),
        *FILENAME,
        Flag("output", short="o", default="yaml", help="Output format: yaml or json."),
        *shared("selector"),
        Flag("all", "bool", help="All objects of the given types in the namespace."),
    ),
    Command(
        "set-last-applied", "Note a file as the last applied manifest", _set,
        Help("-f FILENAME", "", ("Note a file", "apply set-last-applied -f web.yaml --create-annotation")),
        *PRINT, *shared("filename dry-run"),
        Flag("create-annotation", "bool", help="Also for an object that was never applied."),
    ),
    Command(
        "edit-last-applied", "Edit the last applied manifest of objects", _edit,
        Help("(RESOURCE/NAME | -f FILENAME)", "", ("Edit that of a deployment", "apply edit-last-applied deployment/web")),
        *FILENAME,
        *PRINT,
        *shared("field-manager validate record"),
        Flag("windows-line-endings", "bool", help="Lines of the file end as on Windows."),
    ),
)  # fmt: skip
