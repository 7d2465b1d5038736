"""``kapi replace`` (upstream: kubectl ``cmd/replace``); with ``--force`` it deletes objects and creates them again."""

from __future__ import annotations

import contextlib
import io

from kapi.client.errors import StatusError
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import shared
from kapi.kubectl.info import Info, kind_text
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.raw import check_raw, read_bytes, send_raw
from kapi.kubectl.visitor import Result
from kapi.kubectl.waiting import wait_until_gone
from kapi.kubectl.writing import FLAGS as DELETE
from kapi.kubectl.writing import (
    WRITE,
    delete_options,
    dry_run_strategy,
    dry_run_suffix,
    field_manager,
    propagation,
    saved,
    validation,
    with_source,
)
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object, dig

FLAGS = (*(flag for flag in WRITE if flag.name != "selector"), *DELETE, *shared("wait save-config raw subresource"))
_FORCED_TIMEOUT = 300.0  # seconds
HELP = Help(
    "-f FILENAME",
    "Replaces objects as a whole by what files say; they must be there, unless --force makes them anew.",
    ("Replace an object", "replace -f web.yaml"),
    ("Delete it and make it anew", "replace --force -f web.yaml"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    fields, dry_run = validation(flags.get_string("validate")), dry_run_strategy(flags.get_string("dry-run"))
    factory.check_config()
    printer = printer_for(flags, "replaced" + dry_run_suffix(dry_run))
    grace, force = flags.get_int("grace-period"), flags.get_bool("force")
    policy = propagation(flags, factory.err)
    if not flags.get_list("filename"):
        raise CommandError("must specify one of -f and -k")
    if grace >= 0 and not force:
        raise CommandError("--grace-period must have --force specified")
    if flags.get_duration("timeout") and not force:
        raise CommandError("--timeout must have --force specified")
    if force and dry_run != "none":
        raise CommandError("--dry-run can not be used when --force is set")
    if flags.get_string("raw"):
        check_raw(flags, "recursive", "output")
        return await send_raw(factory, factory.client().put())
    if force:
        from_stdin = "-" in flags.get_list("filename")
        if from_stdin:  # read twice
            factory.stdin = io.TextIOWrapper(io.BytesIO(read_bytes("-", factory.stdin)))
        first = await _builder(factory, program).do()
        # as kubectl: the pods of a node keep one second at least
        await _delete(factory, first, delete_options(policy, grace or 1, "none"))
        if from_stdin:
            factory.stdin.seek(0)
    result = await _builder(factory, program).validated(fields).do()
    options = {
        "fieldManager": field_manager(flags, "replace"),
        "fieldValidation": fields,
        "dryRun": "All" if dry_run == "server" else None,
    }
    found = 0
    async for info in result.visit():
        found += 1
        info.object = saved(info.object or {}, flags)
        try:
            if force:
                await info.create(**options)
            elif dry_run != "client":
                await _replace(info, options)
        except (CommandError, StatusError) as error:
            result.errors.append(
                error if force or isinstance(error, CommandError) else with_source("replacing", info, error)
            )
            continue
        factory.out.write(printer.print(info.object or {}))
    raise_errors(result.errors)
    if force and not found:
        raise CommandError("no objects passed to replace")
    return 0


def _builder(factory: Factory, program: str) -> Builder:
    """Of the objects in the files, which are not validated."""
    flags = factory.flags
    builder = Builder(factory, program).namespace(factory.namespace, enforce=bool(flags.get_string("namespace")))
    builder.filenames(flags.get_list("filename"), flags.get_bool("recursive")).flatten()
    return builder.subresource(flags.get_string("subresource"))


async def _replace(info: Info, options: Object) -> None:
    """Sends the object with PUT; without a resourceVersion it replaces any version.  Raises StatusError."""
    obj = info.object or {}
    if not info.name:
        raise CommandError(f'error when replacing "{info.source}": resource name may not be empty')
    if not dig(obj, "metadata", "resourceVersion"):
        with contextlib.suppress(StatusError):  # the answer to the PUT tells of an object that is not there
            current = await info.request(info.client.get()).do()
            obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}}
    info.object = await info.request(info.client.put()).params(options).body(obj).do()


async def _delete(factory: Factory, result: Result, options: Object) -> None:
    """Deletes the objects and waits until they are gone.  Raises Aggregate, StatusError and CommandError."""
    deleted: list[tuple[Info, str]] = []
    short = factory.flags.get_string("output") == "name"
    async for info in result.visit():
        try:
            await info.delete(options)
        except NotFound:
            continue
        except StatusError as error:
            result.errors.append(with_source("deleting", info, error))
            continue
        deleted.append((info, ""))
        kind, where = kind_text(info.mapping), f" from {info.namespace} namespace" if info.namespace else ""
        factory.out.write(f"{kind}/{info.name}\n" if short else f'{kind} "{info.name}" deleted{where}\n')
    raise_errors(result.errors)
    await wait_until_gone(factory, deleted, factory.flags.get_duration("timeout") or _FORCED_TIMEOUT)
