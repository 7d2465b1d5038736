"""``kapi create -f`` (upstream: kubectl ``cmd/create``)."""

from __future__ import annotations

from kapi.cli.factory import Factory
from kapi.cli.flags import Flag
from kapi.cli.messages import raise_errors
from kapi.cli.print_flags import printer_for
from kapi.cli.writing import WRITE, dry_run, dry_run_suffix, file_builder, sourced, validation, with_last_applied
from kapi.client.errors import StatusError

FLAGS = (*WRITE, Flag("save-config", "bool"))


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    builder = file_builder(factory, program, "create")
    how, fields = dry_run(flags["dry-run"]), validation(flags["validate"])
    printer = printer_for(flags, f"created{dry_run_suffix(how)}")
    result = await builder.do()
    errors: list[BaseException] = []
    async for info in result.visit():
        if flags["save-config"]:
            info.object = with_last_applied(info.object or {})
        if how != "client":
            try:
                await info.create(
                    dryRun="All" if how == "server" else None,
                    fieldManager=flags["field-manager"] or f"{program}-create",
                    fieldValidation=fields,
                )
            except StatusError as error:
                errors.append(sourced("creating", info, error))
                continue
        factory.out.write(printer.print(info.object or {}))
    raise_errors(errors + result.errors)
    return 0
