"""Client-side apply: a three-way merge of the manifest, the last applied one, and the object (upstream: kubectl
``cmd/apply/patcher.go``).  The last applied manifest is in an annotation of the object.
"""

from __future__ import annotations

import orjson
from twisted.internet.task import deferLater

from kapi.client.errors import ClientError, StatusError
from kapi.client.three_way import OpenAPISchema, three_way_patch
from kapi.kubectl.delete_options import delete_options, propagation
from kapi.kubectl.factory import Factory
from kapi.kubectl.go_json import json_text
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.openapi import read_document
from kapi.kubectl.waiting import wait_until_gone
from kapi.kubectl.writing import LAST_APPLIED, with_last_applied, with_source
from kapi.machinery.status import Conflict, Invalid, NotFound
from kapi.machinery.tree import Object

MAX_RETRIES, RETRY_SECONDS = 5, 1.0  # after a conflict; the wait before each retry but the first
_MISSING = (
    "Warning: resource {resource}/{name} is missing the {annotation} annotation which is required by {program} apply. "
    "{program} apply should only be used on resources created declaratively by either {program} create --save-config or "
    "{program} apply. The missing annotation will be patched automatically.\n"
)


class ClientSideApply:
    """``dry_run`` is "none", "client" or "server", ``fields`` the value of ``fieldValidation``.

    ``whole``: the complete object will be printed.
    """

    def __init__(self, factory: Factory, program: str, dry_run: str, fields: str, *, whole: bool) -> None:
        self._factory, self._program, self._dry_run, self._whole = factory, program, dry_run, whole
        self._options = {
            "dryRun": "All" if dry_run == "server" else None,
            "fieldManager": factory.flags.get_string("field-manager") or f"{program}-client-side-apply",
            "fieldValidation": fields,
        }
        self._documents: dict[tuple[str, str], Object] = {}

    async def apply(self, info: Info) -> str:
        """Applies the manifest in ``info``, which then has the object.  Returns what was done.

        Raises StatusError and CommandError.
        """
        modified = with_last_applied(info.object or {})
        if not info.name:
            raise CommandError(
                f"error when retrieving current configuration of:\n{_where(info)}\nfrom server for: "
                f'"{info.source}": resource name may not be empty'
            )
        try:
            current = await info.request(info.client.get()).do()
        except NotFound:
            return await self._create(info, modified)
        metadata = current.get("metadata") or {}
        if LAST_APPLIED not in (metadata.get("annotations") or {}):
            resource, program = info.mapping.name, self._program
            self._factory.err.write(
                _MISSING.format(resource=resource, name=info.name, annotation=LAST_APPLIED, program=program)
            )
        if self._dry_run == "client":
            return await self._pretend(info, modified, current)
        patch = await self._patched(info, modified, current)
        if patch and metadata.get("deletionTimestamp"):
            self._factory.err.write(
                f"Warning: Detected changes to resource {info.name} which is currently being deleted.\n"
            )
        return "configured" if patch else "unchanged"

    async def _create(self, info: Info, modified: Object) -> str:
        info.object = modified
        if self._dry_run != "client":
            try:
                await info.create(**self._options)
            except StatusError as error:
                raise with_source("creating", info, error) from None
        return "created"

    async def _pretend(self, info: Info, modified: Object, current: Object) -> str:
        patch, _ = await self._patch(info, modified, current)
        if patch and self._whole:
            raise CommandError(
                f"{info.text} exists: what it would become is known to the server alone (use --dry-run=server)"
            )
        info.object = current
        return "configured" if patch else "unchanged"

    async def _patched(self, info: Info, modified: Object, current: Object) -> Object:
        """The patch that was sent, {} for none.  After a conflict the object is read again and a new patch is made."""
        for attempt in range(MAX_RETRIES + 1):
            patch, strategic = await self._patch(info, modified, current)
            if not patch:
                info.object = current
                return patch
            try:
                await info.patch("strategic" if strategic else "merge", patch, **self._options)
                return patch
            except Conflict as error:
                if attempt == MAX_RETRIES:
                    return await self._forced(info, modified, patch, current, error)
            except StatusError as error:
                return await self._forced(info, modified, patch, current, error)
            if attempt:
                await deferLater(self._factory.reactor, RETRY_SECONDS)
            current = await info.request(info.client.get()).do()
        raise AssertionError("unreachable")

    async def _forced(self, info: Info, modified: Object, patch: Object, current: Object, error: StatusError) -> Object:
        """With ``--force``, replaces an object that cannot be changed by a new one.  Raises StatusError and CommandError."""
        flags = self._factory.flags
        if not flags.get_bool("force") or not isinstance(error, Conflict | Invalid):
            raise self._explained(info, patch, error)
        uid = str((current.get("metadata") or {}).get("uid") or "")
        await info.delete(delete_options(propagation(flags), flags.get_int("grace-period"), self._dry_run))
        await wait_until_gone(self._factory, [(info, uid)], flags.get_duration("timeout"))
        info.object = modified
        try:
            await info.create(**self._options)
        except StatusError as problem:
            metadata = {key: value for key, value in current["metadata"].items() if key != "resourceVersion"}
            info.object = {**current, "metadata": metadata}
            try:
                await info.create(**self._options)
            except StatusError as further:
                raise CommandError(
                    "An error occurred force-replacing the existing object with the newly provided one:\n\n"
                    f"{problem.message}.\n\nAdditionally, an error occurred attempting to restore the original object:"
                    f"\n\n{further.message}"
                ) from None
            raise problem from None
        return modified

    def _explained(self, info: Info, patch: Object, error: StatusError) -> StatusError:
        return with_source(f"applying patch:\n{json_text(patch)}\nto:\n{_where(info)}\nfor:", info, error)

    async def _patch(self, info: Info, modified: Object, current: Object) -> tuple[Object, bool]:
        """The patch, and whether it is a strategic one."""
        original = _original(current)
        mapping = info.mapping
        document = await self._document(mapping.group, mapping.version)
        schema = OpenAPISchema.of_kind(document, mapping.group, mapping.version, mapping.kind)
        try:
            return three_way_patch(original, modified, current, schema), schema is not None
        except ValueError as error:
            raise CommandError(f'creating patch for: "{info.source}": {error}') from None

    async def _document(self, group: str, version: str) -> Object:
        """The OpenAPI document of a group version, read once; {} when there is none."""
        found = self._documents.get((group, version))
        if found is None:
            try:
                found = await read_document(self._factory, group, version) or {}
            except (StatusError, ClientError):
                found = {}
            self._documents[group, version] = found
        return found


def _where(info: Info) -> str:
    group, version = info.mapping.group, info.mapping.version
    named = f"{group}/{version}" if group else f"/{version}"
    what = f'Resource: "{named}, Resource={info.mapping.name}", GroupVersionKind: "{named}, Kind={info.mapping.kind}"'
    return f'{what}\nName: "{info.name}", Namespace: "{info.namespace}"'


def _original(current: Object) -> Object:
    """The manifest that was applied last.  Raises CommandError."""
    text = ((current.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return {}
    try:
        found = orjson.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CommandError(f"the annotation {LAST_APPLIED} is no JSON object")
    return found
