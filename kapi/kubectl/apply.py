"""``kapi apply``, on the server's side or on the client's side (upstream: kubectl ``cmd/apply``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kapi.client.errors import StatusError
from kapi.kubectl.client_side_apply import ClientSideApply
from kapi.kubectl.delete_options import FLAGS as DELETE
from kapi.kubectl.delete_options import propagation
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.prune import Pruner
from kapi.kubectl.prune import check as check_prune
from kapi.kubectl.writing import WRITE, dry_run_strategy, dry_run_suffix, file_builder, validation
from kapi.machinery.status import Conflict
from kapi.machinery.tree import Object

FLAGS = (
    *WRITE,
    *DELETE,
    Flag("server-side", "bool"),
    Flag("force-conflicts", "bool"),
    Flag("subresource"),
    Flag("prune", "bool"),
    Flag("all", "bool"),
    Flag("prune-allowlist", "array"),
)
#: applies one object; returns what was done, such as "created"
Apply = Callable[[Info], Awaitable[str]]


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.get_bool("force-conflicts") and not flags.get_bool("server-side"):
        raise CommandError("--force-conflicts only works with --server-side")
    builder = file_builder(factory, program, "apply")
    dry_run, fields = dry_run_strategy(flags.get_string("dry-run")), validation(flags.get_string("validate"))
    if dry_run == "client" and flags.get_bool("server-side"):
        raise CommandError("--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)")
    if flags.get_bool("force") and flags.get_bool("server-side"):
        raise CommandError("--force cannot be used with --server-side")
    if flags.get_bool("force") and dry_run == "server":
        raise CommandError("--dry-run=server cannot be used with --force")
    propagation(flags)
    if flags.get_string("subresource") and not flags.get_bool("server-side"):
        raise CommandError("--subresource can only be specified for --server-side")
    check_prune(factory)
    whole = bool(flags.get_string("template")) or flags.get_string("output") not in ("", "name")
    printer_for(flags)
    apply: Apply
    if flags.get_bool("server-side"):
        apply = _by_server(factory, program, dry_run, fields)
    else:
        apply = ClientSideApply(factory, program, dry_run, fields, whole=whole).apply
    pruner = await Pruner.of_flags(factory, dry_run) if flags.get_bool("prune") else None
    result = await builder.subresource(flags.get_string("subresource")).do()
    errors: list[BaseException] = []
    applied: list[Object] = []
    found = False
    async for info in result.visit():
        found = True
        generated = "" if info.name else ((info.object or {}).get("metadata") or {}).get("generateName")
        if generated:
            errors.append(CommandError(f"from {generated}: cannot use generate name with apply"))
            continue
        try:
            done = await apply(info)
        except (CommandError, StatusError) as error:
            errors.append(error)
            continue
        if pruner is not None:
            pruner.keep(info)
        if whole:
            applied.append(info.object or {})
        else:
            factory.out.write(printer_for(flags, done + dry_run_suffix(dry_run)).print(info.object or {}))
    raise_errors(errors + result.errors)
    if not found:
        raise CommandError("no objects passed to apply")
    if whole:
        listed: Object = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": applied}
        factory.out.write(printer_for(flags).print(applied[0] if len(applied) == 1 else listed))
    if pruner is not None:
        await pruner.run()
    return 0


def _by_server(factory: Factory, program: str, dry_run: str, fields: str) -> Apply:
    flags = factory.flags

    async def apply(info: Info) -> str:
        if not info.name:
            raise CommandError("resource name may not be empty")
        try:
            await info.patch(
                "apply",
                info.object,
                dryRun="All" if dry_run == "server" else None,
                fieldManager=flags.get_string("field-manager") or program,
                fieldValidation=fields,
                force=flags.get_bool("force-conflicts"),
            )
        except Conflict as error:
            raise _conflict(error) from None
        return "serverside-applied"

    return apply


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
