"""``kapi create -f`` and ``kapi apply --server-side`` (upstream: kubectl ``cmd/create``, ``cmd/apply``)."""

from __future__ import annotations

from kapi.cli.builder import Builder
from kapi.cli.factory import Factory
from kapi.cli.flags import FILENAME, PRINT, Flag
from kapi.cli.info import Info
from kapi.cli.messages import CommandError, raise_errors
from kapi.cli.print_flags import printer_for
from kapi.client.errors import StatusError
from kapi.machinery.status import Conflict

_WRITE = (*FILENAME, *PRINT, Flag("selector", short="l"), Flag("field-manager"))
_DRY_RUN = Flag("dry-run", alone="unchanged", default="none")
_VALIDATE = Flag("validate", alone="strict", default="strict")
FLAGS = (*_WRITE, _DRY_RUN, _VALIDATE, Flag("save-config", "bool"), Flag("edit", "bool"), Flag("raw"))
APPLY_FLAGS = (*_WRITE, _DRY_RUN, _VALIDATE, Flag("server-side", "bool"), Flag("force-conflicts", "bool"))
_VALIDATION = {"true": "Strict", "strict": "Strict", "warn": "Warn", "false": "Ignore", "ignore": "Ignore"}


def dry_run(text: str) -> str:
    """``none``, ``client`` or ``server``.  Raises CommandError."""
    if text in ("client", "server", "none"):
        return text
    if text == "unchanged":
        raise CommandError("--dry-run is deprecated and can be replaced with --dry-run=client.")
    raise CommandError(f'Invalid dry-run value ({text}). Must be "none", "server", or "client".')


def validation(text: str) -> str:
    """The query option ``fieldValidation``.  Raises CommandError."""
    found = _VALIDATION.get(text.lower())
    if found is None:
        raise CommandError(
            f'invalid - validate option "{text}"; must be one of: strict (or true), warn, ignore (or false)'
        )
    return found


def _suffix(how: str) -> str:
    return {"client": " (dry run)", "server": " (server dry run)"}.get(how, "")


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.arguments:
        raise CommandError(f"unexpected arguments: [{' '.join(flags.arguments)}]", usage=f"{program} create")
    if not flags["filename"]:
        raise CommandError("must specify one of -f and -k")
    how, fields = dry_run(flags["dry-run"]), validation(flags["validate"])
    printer = printer_for(flags, f"created{_suffix(how)}")
    result = await (
        Builder(factory, program)
        .namespace(factory.namespace, enforce=bool(flags["namespace"]))
        .filenames(flags["filename"], flags["recursive"])
        .flatten()
        .do()
    )
    errors: list[BaseException] = []
    async for info in result.visit():
        if how != "client":
            try:
                await info.create(
                    dryRun="All" if how == "server" else None,
                    fieldManager=flags["field-manager"] or f"{program}-create",
                    fieldValidation=fields,
                )
            except StatusError as error:
                errors.append(_sourced("creating", info, error))
                continue
        factory.out.write(printer.print(info.object or {}))
    raise_errors(errors + result.errors)
    return 0


def _sourced(what: str, info: Info, error: StatusError) -> StatusError:
    """With the file it is about."""
    text = f'error when {what} "{info.source}": {error.message}'
    made = StatusError(text, details=error.details, code=error.code, reason=error.reason)
    return made


async def run_apply(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.arguments:
        raise CommandError(f"unexpected arguments: [{' '.join(flags.arguments)}]", usage=f"{program} apply")
    if flags["force-conflicts"] and not flags["server-side"]:
        raise CommandError("--force-conflicts only works with --server-side")
    if not flags["filename"]:
        raise CommandError("must specify one of -f and -k")
    if not flags["server-side"]:
        raise CommandError("apply without --server-side is not supported")
    how, fields = dry_run(flags["dry-run"]), validation(flags["validate"])
    if how == "client":
        raise CommandError("--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)")
    printer = printer_for(flags, f"serverside-applied{_suffix(how)}")
    result = await (
        Builder(factory, program)
        .namespace(factory.namespace, enforce=bool(flags["namespace"]))
        .filenames(flags["filename"], flags["recursive"])
        .flatten()
        .do()
    )
    errors: list[BaseException] = []
    async for info in result.visit():
        try:
            await info.patch(
                "apply",
                info.object,
                dryRun="All" if how == "server" else None,
                fieldManager=flags["field-manager"] or program,
                fieldValidation=fields,
                force=flags["force-conflicts"],
            )
        except Conflict as error:
            errors.append(_conflict(error))
            continue
        except StatusError as error:
            errors.append(error)
            continue
        factory.out.write(printer.print(info.object or {}))
    raise_errors(errors + result.errors)
    return 0


def _conflict(error: Conflict) -> CommandError:
    return CommandError(
        f"{error.message}\nPlease review the fields above--they currently have other managers. Here\nare the ways you can "
        "resolve this warning:\n"
        "* If you intend to manage all of these fields, please re-run the apply\n  command with the `--force-conflicts` flag.\n"
        "* If you do not intend to manage all of the fields, please edit your\n  manifest to remove references to the fields "
        "that should keep their\n  current managers.\n"
        "* You may co-own fields by updating your manifest to match the existing\n  value; in this case, you'll become the "
        "manager if the other manager(s)\n  stop managing the field (remove it from their configuration).\n"
        "See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts"
    )
