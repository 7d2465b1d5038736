"""What the subcommands of ``create`` share: one object from flags, sent and printed (upstream: kubectl ``cmd/create``).

Objects have the order of fields of Go's structs, which JSON is printed in.
"""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import PRINT, Flag
from kapi.kubectl.go_json import json_text
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.writing import LAST_APPLIED, dry_run_strategy, dry_run_suffix, validation
from kapi.machinery.tree import Object

DRY_RUN = Flag("dry-run", no_opt_default="unchanged", default="none")
CREATE = (
    *PRINT,
    Flag("save-config", "bool"),
    Flag("validate", no_opt_default="strict", default="strict"),
    DRY_RUN,
    Flag("field-manager"),
)


def one_name(factory: Factory, program: str) -> str:
    """The name among the arguments; those after ``--`` are a command's.  Raises CommandError."""
    flags = factory.flags
    count = len(flags.arguments) if flags.dash is None else flags.dash
    if count != 1:
        raise CommandError(f"exactly one NAME is required, got {count}", usage=f"{program} {factory.command}")
    return flags.arguments[0]


def metadata(factory: Factory, name: str, *, namespaced: bool = True, **more: object) -> Object:
    """``more`` are further fields.  The namespace is only there when a flag names it."""
    found: Object = {"name": name}
    if namespaced and factory.flags.get_string("namespace"):
        found["namespace"] = factory.namespace
    return found | {key: value for key, value in more.items() if value}


async def create(factory: Factory, program: str, obj: Object, resource: str, failed: str = "", **scope: bool) -> int:
    """Creates and prints the object.  ``failed`` is before the server's message.  ``namespaced=False``: has no namespace.

    Raises CommandError and StatusError.
    """
    flags = factory.flags
    dry_run, fields = dry_run_strategy(flags.get_string("dry-run")), validation(flags.get_string("validate"))
    printer = printer_for(flags, f"created{dry_run_suffix(dry_run)}", typed=True)
    if flags.get_bool("save-config"):
        obj["metadata"]["annotations"] = {
            **(obj["metadata"].get("annotations") or {}),
            LAST_APPLIED: json_text(obj, ordered=False) + "\n",
        }
    if dry_run != "client":
        request = factory.client(obj["apiVersion"]).post()
        request = request.namespace(factory.namespace if scope.get("namespaced", True) else "").resource(resource)
        try:
            obj = (
                await request.params(
                    {
                        "dryRun": "All" if dry_run == "server" else None,
                        "fieldManager": flags.get_string("field-manager") or f"{program}-create",
                        "fieldValidation": fields,
                    }
                )
                .body(obj)
                .do()
            )
        except StatusError as error:
            if not failed:
                raise
            raise CommandError(f"{failed} {error.message}") from None
    factory.out.write(printer.print(obj))
    return 0
