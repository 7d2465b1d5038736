"""What ``create`` and ``apply`` share: flags, the objects of their files, errors with the file they are about."""

from __future__ import annotations

from kapi.cli.builder import Builder
from kapi.cli.factory import Factory
from kapi.cli.flags import FILENAME, PRINT, Flag
from kapi.cli.go_values import json_text
from kapi.cli.info import Info
from kapi.cli.messages import CommandError
from kapi.client.errors import StatusError
from kapi.machinery.tree import Object

WRITE = (
    *FILENAME,
    *PRINT,
    Flag("selector", short="l"),
    Flag("field-manager"),
    Flag("dry-run", alone="unchanged", default="none"),
    Flag("validate", alone="strict", default="strict"),
)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_VALIDATION = {"true": "Strict", "strict": "Strict", "warn": "Warn", "false": "Ignore", "ignore": "Ignore"}


def dry_run(text: str) -> str:
    """``none``, ``client`` or ``server``; the flag alone is the client's.  Raises CommandError."""
    if text in ("client", "server", "none"):
        return text
    if text == "unchanged":
        return "client"
    raise CommandError(f'Invalid dry-run value ({text}). Must be "none", "server", or "client".')


def dry_run_suffix(how: str) -> str:
    return {"client": " (dry run)", "server": " (server dry run)"}.get(how, "")


def validation(text: str) -> str:
    """The query option ``fieldValidation``.  Raises CommandError."""
    found = _VALIDATION.get(text.lower())
    if found is None:
        raise CommandError(
            f'invalid - validate option "{text}"; must be one of: strict (or true), warn, ignore (or false)'
        )
    return found


def file_builder(factory: Factory, program: str, command: str) -> Builder:
    """Of a command that takes files alone.  Raises CommandError."""
    flags = factory.flags
    if flags.arguments:
        raise CommandError(f"Unexpected args: [{' '.join(flags.arguments)}]", usage=f"{program} {command}")
    if not flags.get_list("filename"):
        raise CommandError("must specify one of -f and -k")
    builder = Builder(factory, program).namespace(factory.namespace, enforce=bool(flags.get_string("namespace")))
    builder.validated(flags.get_string("validate").lower() not in ("false", "ignore"))
    return (
        builder.filenames(flags.get_list("filename"), flags.get_bool("recursive"))
        .labels(flags.get_string("selector"))
        .flatten()
    )


def sourced(what: str, info: Info, error: StatusError) -> StatusError:
    """With the file it is about."""
    text = f'error when {what} "{info.source}": {error.message}'
    return StatusError(text, details=error.details, code=error.code, reason=error.reason)


def with_last_applied(obj: Object) -> Object:
    """A copy that says in an annotation what it was."""
    metadata = obj.get("metadata") or {}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    bare = {**obj, "metadata": {**metadata, "annotations": annotations}}
    return {
        **bare,
        "metadata": {**bare["metadata"], "annotations": {**annotations, LAST_APPLIED: json_text(bare) + "\n"}},
    }
