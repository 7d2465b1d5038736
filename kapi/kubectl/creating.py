"""Common parts of the subcommands of ``create``: one object from flags, sent and printed (upstream: kubectl ``cmd/create``).

Objects have the fields in the order of Go's structs, which is the order of printed JSON.
"""

from __future__ import annotations

from kapi.client.errors import ConnectionFailed, DeadlineExceeded, StatusError
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import PRINT, Flag, shared
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.printers.interface import Printer
from kapi.kubectl.writing import LAST_APPLIED, dry_run_strategy, dry_run_suffix, field_manager, recorded, validation
from kapi.machinery.go_json import json_text
from kapi.machinery.tree import Object

CREATE = (*PRINT, *shared("dry-run save-config validate field-manager"))


def name_argument(factory: Factory, program: str) -> str:
    """The name among the arguments; arguments after ``--`` belong to a command.  Raises CommandError."""
    flags = factory.flags
    count = len(flags.arguments) if flags.dash is None else flags.dash
    if count != 1:
        raise CommandError(f"exactly one NAME is required, got {count}", usage=f"{program} {factory.command}")
    return flags.arguments[0]


def one_name(factory: Factory, program: str, *, required: bool = True) -> str:
    """The name, which may only be empty if it is not ``required``.

    Errors of the configuration and of the flags that all subcommands have come before those of one.  Raises CommandError.
    """
    name = name_argument(factory, program)
    factory.check_config()
    _form(factory)
    if required and not name:
        raise CommandError("name must be specified")
    return name


def _form(factory: Factory) -> tuple[str, str, Printer]:
    """Dry run, validation and printer.  Raises CommandError."""
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    printer = printer_for(flags, f"created{dry_run_suffix(dry_run)}", typed=True)
    return dry_run, validation(flags.get_string("validate")), printer


def metadata(factory: Factory, name: str, *, namespaced: bool = True, **more: object) -> Object:
    """The metadata, with the namespace only if a flag names it; ``more`` are further fields."""
    found: Object = {"name": name} if name else {}
    if namespaced and factory.flags.get_string("namespace"):
        found["namespace"] = factory.namespace
    return found | {key: value for key, value in more.items() if value}


async def create(
    factory: Factory, obj: Object, resource: str, failed: str = "", *, saved: bool = True, **scope: bool
) -> int:
    """Creates and prints the object.  ``failed`` is before the server's message.  ``namespaced=False``: has no namespace.

    ``saved``: ``--save-config`` has an effect.  Raises CommandError and StatusError.
    """
    dry_run, fields, printer = _form(factory)
    if saved and factory.flags.get_bool("save-config"):
        add_last_applied(obj)
    if dry_run != "client":
        try:
            obj = await post(factory, obj, resource, fieldValidation=fields, **scope)
        except (StatusError, ConnectionFailed, DeadlineExceeded) as error:
            if not failed:
                raise
            raise CommandError(f"{failed} {factory.request_text(error)}") from None
    factory.out.write(printer.print(obj))
    return 0


def add_last_applied(obj: Object) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, LAST_APPLIED: json_text(obj, ordered=False) + "\n"}


async def post(factory: Factory, obj: Object, resource: str, *, namespaced: bool = True, **options: object) -> Object:
    """Creates the object, with the command's manager and dry run.  Raises StatusError."""
    flags = factory.flags
    request = factory.client(obj["apiVersion"]).post()
    request = request.namespace(factory.namespace if namespaced else "").resource(resource)
    options["dryRun"] = "All" if dry_run_strategy(flags.get_string("dry-run")) == "server" else None
    options["fieldManager"] = field_manager(flags, factory.command.split()[0])
    made: Object = await request.params(options).body(obj).do()
    return made


async def create_generated(factory: Factory, obj: Object, resource: str) -> Object:
    """Creates the object and returns it; with ``--dry-run=client`` only returns it with the flag's namespace.

    Raises StatusError.
    """
    flags, given = factory.flags, obj["metadata"]
    if dry_run_strategy(flags.get_string("dry-run")) != "client":
        if flags.get_bool("save-config"):
            add_last_applied(obj)
        return await post(factory, obj, resource)
    if flags.get_string("namespace"):
        obj["metadata"] = {"name": given["name"], "namespace": "", **given} | {"namespace": factory.namespace}
    return obj


def labels_of(text: str) -> dict[str, str]:
    """``a=b,c=d`` as labels (upstream: kubectl ``generate`` ParseLabels).  Raises CommandError."""
    found = {}
    for part in text.split(","):
        key, *values = part.split("=")
        if len(values) != 1:
            raise CommandError(f"unexpected label spec: {part}")
        if not key:
            raise CommandError("unexpected empty label key")
        found[key] = values[0]
    return dict(sorted(found.items()))


OVERRIDES = (
    Flag("overrides", help="JSON that changes the object before it is created."),
    Flag("override-type", default="merge", help="How the overrides change the object: json, merge or strategic."),
)


def overridden(factory: Factory, program: str, obj: Object) -> Object:
    """The object with ``--overrides`` and ``--record``.  Raises CommandError."""
    text, kind = factory.flags.get_string("overrides"), factory.flags.get_string("override-type") or "merge"
    if not text:
        return recorded(factory, program, obj)
    if kind not in ("json", "merge", "strategic"):
        raise CommandError(f"invalid override type: {kind}")
    from kapi.kubectl.local_patch import decoded, patched

    return recorded(factory, program, decoded(*patched(obj, text.encode(), kind)))
