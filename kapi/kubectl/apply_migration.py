"""Migrates the fields of client-side apply to server-side apply (upstream: client-go ``util/csaupgrade``).

Without the migration, fields of the earlier manifest would belong to another manager, and a later manifest could not remove them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kapi.client.errors import StatusError
from kapi.kubectl.info import Info
from kapi.kubectl.writing import LAST_APPLIED, MANAGER
from kapi.machinery import tree
from kapi.machinery.status import Conflict
from kapi.machinery.tree import Object

MAX_RETRIES = 5  # after a conflict
_LATER = "This is non-fatal and will be retried next time you apply. Error: {}"
_ANNOTATION = f"Warning: failed to migrate {LAST_APPLIED} for Server-Side Apply. {_LATER}\n"
_FIELDS = f"Warning: server rejected managed fields migration to Server-Side Apply. {_LATER}\n"
_APPLIED = f"Warning: failed to re-apply configuration after performing Server-Side Apply migration. {_LATER}\n"


async def migrate(
    info: Info, manifest: Object, manager: str, options: Mapping[str, object], warn: Callable[[str], object]
) -> None:
    """Migrates the object in ``info``, which is the result of server-side apply; afterwards ``info`` has the new state.

    ``options`` are query parameters of the patches.  Failures are warnings, since the manifest was applied.
    """
    try:
        if manager == MANAGER:
            await _keep_annotation(info, options)
    except StatusError as error:
        warn(_ANNOTATION.format(error.message))
        return
    try:
        if not await _migrate_fields(info, manager, options):
            return
    except StatusError as error:
        warn(_FIELDS.format(error.message))
        return
    try:
        await info.patch("apply", manifest, fieldManager=manager, **options)
    except StatusError as error:
        warn(_APPLIED.format(error.message))


async def _keep_annotation(info: Info, options: Mapping[str, object]) -> None:
    """Gives the annotation with the last applied manifest a separate manager, which the server keeps."""
    metadata = (info.object or {})["metadata"]
    applied = (metadata.get("annotations") or {}).get(LAST_APPLIED)
    if applied is None or _owners(metadata, "Apply"):
        return
    named = {field: metadata[field] for field in ("name", "namespace") if metadata.get(field)}
    body = {
        "apiVersion": info.mapping.group_version,
        "kind": info.mapping.kind,
        "metadata": {**named, "annotations": {LAST_APPLIED: applied}},
    }
    await info.patch("apply", body, fieldManager=f"{MANAGER}-last-applied", **{**options, "force": None})


def _owners(metadata: Object, operation: str) -> list[str]:
    """The managers of the annotation with the last applied manifest."""
    return [
        entry.get("manager", "")
        for entry in metadata.get("managedFields") or ()
        if entry.get("operation") == operation
        and f"f:{LAST_APPLIED}" in (tree.dig(entry, "fieldsV1", "f:metadata", "f:annotations") or {})
    ]


async def _migrate_fields(info: Info, manager: str, options: Mapping[str, object]) -> bool:
    """Migrates fields of client-side apply.  Returns whether there were any.  Raises StatusError."""
    former = sorted(set(_owners((info.object or {})["metadata"], "Update")))
    for attempt in range(MAX_RETRIES):
        metadata = (info.object or {})["metadata"]
        entries = metadata.get("managedFields") or []
        wanted = entries
        for name in former:
            wanted = _united(wanted, name, manager)
        if wanted == entries:
            return False
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": wanted},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        ]
        try:
            await info.patch("json", patch, fieldManager=manager, **{**options, "force": None})
        except Conflict:
            if attempt == MAX_RETRIES - 1:
                raise
            await info.get()
            continue
        return True
    raise AssertionError("unreachable")


def _united(entries: list[Object], former: str, manager: str) -> list[Object]:
    """The entries without the earlier manager, whose fields now belong to the new manager."""

    def is_former(entry: Object) -> bool:
        return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (former, "Update", "")

    def is_own(entry: Object) -> bool:
        return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (manager, "Apply", "")

    target = next(filter(is_own, entries), None) or next(filter(is_former, entries), None)
    if target is None:
        return entries
    version = target.get("apiVersion")
    source = next((one for one in entries if is_former(one) and one.get("apiVersion") == version), {})
    made = {
        **target,
        "manager": manager,
        "operation": "Apply",
        "fieldsV1": _union(target.get("fieldsV1") or {}, source.get("fieldsV1") or {}),
    }
    return [made if one is target else one for one in entries if one is target or not is_former(one)]


def _union(one: Object, other: Object) -> Object:
    """The union of two sets of fields."""
    return {**other, **{name: _union(inner, other.get(name) or {}) for name, inner in one.items()}}
