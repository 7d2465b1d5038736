"""``kapi diff``: compares the server's objects with the results of manifests, by ``diff`` (upstream: kubectl ``cmd/diff``)."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from kapi.kubectl.apply import ClientSideApply, Superfluous, allowed
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.printers.documents import YAMLPrinter
from kapi.kubectl.writing import LAST_APPLIED, field_manager
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object

FLAGS = (
    *FILENAME,
    *shared("selector server-side force-conflicts field-manager show-managed-fields prune prune-allowlist"),
    Flag("show-secrets", "bool", help="Print the values of Secrets."),
    Flag("concurrency", "int", default=1, help="Has no effect: objects are compared one after the other."),
)
_MASK = "***"
_WORD = re.compile(r"[a-zA-Z0-9-=]+").fullmatch
FAILURE = 2  # 1 means that there are differences
HELP = Help(
    "-f FILENAME",
    "Shows what apply would change, by the program in $KUBECTL_EXTERNAL_DIFF or diff. Ends with 1 when there is a difference.",
    ("Compare a file with the server", "diff -f web.yaml"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.arguments:
        hint = ""
        if all(one.isdecimal() for one in flags.arguments):
            hint = f"; the changes between two revisions are shown by '{program} changes'"
        raise CommandError(f"Unexpected args: [{' '.join(flags.arguments)}]{hint}", usage=f"{program} diff")
    if not flags.get_list("filename"):
        raise CommandError("must specify one of -f and -k")
    if flags.get_bool("force-conflicts") and not flags.get_bool("server-side"):
        raise CommandError("--force-conflicts only works with --server-side")
    selector = flags.get_string("selector")
    pruned = Superfluous(factory, await allowed(factory), selector) if flags.get_bool("prune") else None
    builder = Builder(factory, program).namespace(factory.namespace, enforce=bool(flags.get_string("namespace")))
    builder.filenames(flags.get_list("filename"), flags.get_bool("recursive")).labels(flags.get_string("selector"))
    result = await builder.flatten().do()
    with tempfile.TemporaryDirectory(prefix="LIVE-") as live, tempfile.TemporaryDirectory(prefix="MERGED-") as merged:
        async for info in result.visit(to_first_error=True):
            before, after = await _versions(factory, program, info)
            if pruned is not None:
                pruned.keep(info)
            if not flags.get_bool("show-managed-fields"):
                before, after = _bare(before), _bare(after)
            secret = _is_secret(after)
            if after is not None and secret and not flags.get_bool("show-secrets"):
                before, after = _masked(before, after)
            # nothing is written of what is not there, but the null that a missing secret is after it was masked
            _write(live, info, before, "null\n" if secret and not flags.get_bool("show-secrets") else "")
            _write(merged, info, after)
        if pruned is not None:
            async for info in pruned.visit():
                obj = info.object or {}
                hidden = _is_secret(obj) and not flags.get_bool("show-secrets")
                _write(live, info, _masked(None, obj)[1] if hidden else obj)
        raise_errors(result.errors)
        return _compare(factory, live, merged)


async def _versions(factory: Factory, program: str, info: Info) -> tuple[Object | None, Object | None]:
    """The current object, None when there is none, and the object as it would be.  Raises StatusError and CommandError."""
    flags, local = factory.flags, info.object or {}
    if not info.name:
        raise CommandError("resource name may not be empty")
    try:
        live: Object | None = await info.request(info.client.get()).do()
    except NotFound:
        live = None
    if flags.get_bool("server-side"):
        options = {"dryRun": "All", "fieldManager": field_manager(flags), "force": flags.get_bool("force-conflicts")}
        await info.patch("apply", local, **options)
    elif live is None:
        await info.create(dryRun="All", fieldManager=field_manager(flags, "client-side-apply"))
    else:
        metadata = dict(local.get("metadata") or {})
        annotations = metadata.get("annotations") or {}
        # without any, too: what apply wrote down last has them, and leaving them out would remove all
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        await ClientSideApply(factory, program, "server", "", whole=False).merge(
            info, {**local, "metadata": metadata}, live
        )
    if live is not None and live["metadata"].get("deletionTimestamp"):
        factory.err.write(f"Warning: Detected changes to resource {info.name} which is currently being deleted.\n")
    return live, info.object


def _is_secret(obj: Object | None) -> bool:
    return obj is not None and (obj.get("apiVersion"), obj.get("kind")) == ("v1", "Secret")


def _write(directory: str, info: Info, obj: Object | None, missing: str = "") -> None:
    text = missing if obj is None else YAMLPrinter(managed_fields=True).print(obj)
    Path(directory, _name(info)).write_text(text)


def _name(info: Info) -> str:
    mapping = info.mapping
    group = f"{mapping.group}." if mapping.group else ""
    return f"{group}{mapping.version}.{mapping.kind}.{info.namespace}.{info.name}"


def _bare(obj: Object | None) -> Object | None:
    if obj is None:
        return None
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _masked(before: Object | None, after: Object) -> tuple[Object | None, Object]:
    """Two secrets with masked values; different values have different masks."""
    old, new = ((obj or {}).get("data") or {} for obj in (before, after))
    changed = {key for key in old if key in new and old[key] != new[key]}

    def mask(obj: Object, data: Object, which: str) -> Object:
        hidden = {key: f"{_MASK} ({which})" if key in changed else _MASK for key in data}
        return {**obj, "data": hidden} if data else obj

    return (mask(before, old, "before") if before is not None else None), mask(after, new, "after")


def _compare(factory: Factory, live: str, merged: str) -> int:
    """Runs ``diff``, or the program of KUBECTL_EXTERNAL_DIFF.  Raises CommandError when it fails."""
    given = os.environ.get("KUBECTL_EXTERNAL_DIFF", "").split(" ")
    command = (
        [given[0], live, merged, *(word for word in given[1:] if _WORD(word))]
        if given[0]
        else ["diff", "-u", "-N", live, merged]
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CommandError(f'failed to run "{command[0]}": {error}') from None
    factory.out.write(done.stdout)
    factory.err.write(done.stderr)
    if done.returncode > 1:
        raise CommandError(f'failed to run "{command[0]}": exit status {done.returncode}')
    return done.returncode
