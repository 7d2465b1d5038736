"""``kapi create -f`` (upstream: kubectl ``cmd/create``)."""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.kubectl import create_access, create_data, create_network, create_workloads
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.raw import check_raw, send_raw
from kapi.kubectl.writing import (
    WRITE,
    dry_run_strategy,
    dry_run_suffix,
    field_manager,
    file_builder,
    recorded,
    saved,
    validation,
    with_source,
)

_EDIT = (
    Flag("edit", "bool", help="Edit each object before it is created."),
    Flag("windows-line-endings", "bool", help="Lines of the edited file end as on Windows."),
)
FLAGS = (*WRITE, *shared("save-config raw record"), *_EDIT)
HELP = Help(
    "-f FILENAME",
    "Creates the objects of files, or with a subcommand an object from its flags. An object that is there already is an error;\n"
    '"apply" changes it instead.',
    ("Create what a file describes", "create -f pod.yaml"),
    ("Create what comes from standard input", "create -f - < pod.yaml"),
    ("Show what would be created", "create -f pod.yaml --dry-run=client -o yaml"),
)

SUBCOMMANDS = (
    *create_access.COMMANDS,
    *create_workloads.COMMANDS,
    *create_network.COMMANDS,
    create_data.CONFIG_MAP,
    create_data.SECRET,
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.arguments:
        raise CommandError(f"Unexpected args: [{' '.join(flags.arguments)}]", usage=f"{program} create")
    dry_run, fields = dry_run_strategy(flags.get_string("dry-run")), validation(flags.get_string("validate"))
    printer = printer_for(flags, f"created{dry_run_suffix(dry_run)}")
    builder = file_builder(factory, program, "create", needed=not flags.get_bool("edit"))
    if flags.get_string("raw"):
        if flags.get_bool("edit"):
            raise CommandError("--raw and --edit are mutually exclusive")
        check_raw(flags, "recursive", "selector", "output")
        return await send_raw(factory, factory.client().post())
    result = await builder.do()
    found = False
    async for info in result.visit():
        found = True
        if flags.get_bool("edit"):
            from kapi.kubectl.edit import Creating  # imported only when it is used

            with result.caught():
                await Creating(factory, program, [info], fields).run()
            continue
        info.object = recorded(factory, program, saved(info.object or {}, flags))
        if dry_run != "client":
            try:
                await info.create(
                    dryRun="All" if dry_run == "server" else None,
                    fieldManager=field_manager(flags, "create"),
                    fieldValidation=fields,
                )
            except StatusError as error:
                result.errors.append(with_source("creating", info, error))
                continue
        factory.out.write(printer.print(info.object or {}))
    raise_errors(result.errors)
    if not found:
        raise CommandError("no objects passed to create")
    return 0
