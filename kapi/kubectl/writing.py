"""Common parts of commands that write: flags, the objects of files, annotations of kubectl, errors that name the file."""

from __future__ import annotations

import contextlib
from typing import TextIO

from kapi.client.errors import StatusError
from kapi.kubectl.builder import Builder, builder_of
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, Flags, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import NumberError, parse_bool
from kapi.machinery.tree import Object, dig

WRITE = (*FILENAME, *PRINT, *shared("selector field-manager dry-run validate"))
MANAGER = "kubectl"
CHANGE_CAUSE = "kubernetes.io/change-cause"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_VALIDATION = {"true": "Strict", "strict": "Strict", "warn": "Warn", "false": "Ignore", "ignore": "Ignore"}
FLAGS = (
    Flag(
        "cascade",
        no_opt_default="background",
        default="background",
        help="How dependents are deleted: background, foreground, or orphan, which keeps them.",
    ),
    *shared("force grace-period timeout"),
)
_CASCADES = ("background", "foreground", "orphan")


def dry_run_strategy(text: str) -> str:
    """The strategy of ``--dry-run``: ``none``, ``client`` or ``server``; ``client`` without a value, or for a true one.

    Raises CommandError.
    """
    if text in ("client", "server", "none"):
        return text
    if text == "unchanged":
        return "client"
    with contextlib.suppress(NumberError):
        return "client" if parse_bool(text) else "none"
    raise CommandError(f'Invalid dry-run value ({text}). Must be "none", "server", or "client".')


def dry_run_suffix(dry_run: str) -> str:
    return {"client": " (dry run)", "server": " (server dry run)"}.get(dry_run, "")


def validation(text: str) -> str:
    """The query parameter ``fieldValidation`` for ``--validate``.  Raises CommandError."""
    found = _VALIDATION.get(text.lower())
    if found is None:
        raise CommandError(
            f'invalid - validate option "{text}"; must be one of: strict (or true), warn, ignore (or false)'
        )
    return found


def file_builder(factory: Factory, program: str, command: str, *, needed: bool = True) -> Builder:
    """The Builder of a command that takes only files; without ``needed`` the Builder itself reports that there are none.

    Raises CommandError.
    """
    flags = factory.flags
    if flags.arguments:
        raise CommandError(f"Unexpected args: [{' '.join(flags.arguments)}]", usage=f"{program} {command}")
    if needed and not flags.get_list("filename"):
        raise CommandError("must specify one of -f and -k")
    builder = builder_of(factory, program).labels(flags.get_string("selector"))
    return builder.validated(validation(flags.get_string("validate")))


def with_source(what: str, info: Info, error: StatusError) -> StatusError:
    """The error with the name of the file."""
    text = f'error when {what} "{info.source}": {error.message}'
    return StatusError(text, details=error.details, code=error.code, reason=error.reason)


def where(info: Info) -> str:
    """The resource, kind, name and namespace of an object, as in errors of client-side apply."""
    group, version = info.mapping.group, info.mapping.version
    named = f"{group}/{version}" if group else f"/{version}"
    what = f'Resource: "{named}, Resource={info.mapping.name}", GroupVersionKind: "{named}, Kind={info.mapping.kind}"'
    return f'{what}\nName: "{info.name}", Namespace: "{info.namespace}"'


def with_last_applied(obj: Object) -> Object:
    """A copy of a manifest with an annotation that contains the manifest itself."""
    metadata = obj.get("metadata") or {}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    bare = {**obj, "metadata": {**metadata, "annotations": annotations}}
    return {
        **bare,
        "metadata": {**bare["metadata"], "annotations": {**annotations, LAST_APPLIED: json_text(bare) + "\n"}},
    }


def field_manager(flags: Flags, verb: str = "") -> str:
    """The owner of what is written: that of ``--field-manager``, or that of kubectl's ``verb``.

    So objects can be changed by both programs, and the server upgrades the manifests of client-side apply, which it only does
    for the manager ``kubectl``.
    """
    if flags.given("field-manager"):  # also when it is empty
        return flags.get_string("field-manager")
    return f"{MANAGER}-{verb}" if verb else MANAGER


def saved(obj: Object, flags: Flags) -> Object:
    """The manifest, with the annotation for ``--save-config``, or when it has an earlier one."""
    known = dig(obj, "metadata", "annotations", LAST_APPLIED)
    return with_last_applied(obj) if flags.get_bool("save-config") or known else obj


def record_patch(factory: Factory, program: str) -> Object:
    """A merge patch with the annotation of ``--record``, the command that changed an object last; {} without the flag.

    kubectl keeps the flag for old scripts, and warns of it.
    """
    flags = factory.flags
    if not flags.has("record") or not flags.get_bool("record"):
        return {}
    cause = " ".join((program, factory.command, *flags.arguments, *flags.as_given))
    return {"metadata": {"annotations": {CHANGE_CAUSE: cause}}}


def recorded(factory: Factory, program: str, obj: Object) -> Object:
    """The object, with ``--record`` a copy that has the annotation."""
    patch = record_patch(factory, program)
    if not patch:
        return obj
    metadata = obj.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), **patch["metadata"]["annotations"]}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def propagation(flags: Flags, err: TextIO | None = None) -> str:
    """The ``propagationPolicy`` of ``--cascade``; for the deprecated booleans it prints a warning to ``err``.

    Raises CommandError.
    """
    text = flags.get_string("cascade")
    if text in _CASCADES:
        return text.capitalize()
    try:
        found = "background" if parse_bool(text) else "orphan"
    except NumberError:
        raise CommandError(f'invalid cascade value ({text}). Must be "background", "foreground", or "orphan"') from None
    if err is not None:
        err.write(
            f"warning: --cascade={text} is deprecated (boolean value) and can be replaced with --cascade={found}.\n"
        )
    return found.capitalize()


def delete_options(policy: str, grace: int, dry_run: str) -> Object:
    """DeleteOptions.  ``grace`` is in seconds, below 0 for the object's own; ``dry_run`` is "none", "client" or "server"."""
    options: Object = {"propagationPolicy": policy}
    if grace >= 0:
        options["gracePeriodSeconds"] = grace
    if dry_run == "server":
        options["dryRun"] = ["All"]
    return options
