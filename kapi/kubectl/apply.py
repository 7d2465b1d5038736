"""``kapi apply``, on the server's side or on the client's side (upstream: kubectl ``cmd/apply``).

On the client's side it is a three-way merge of the manifest, the last applied manifest, and the object
(``cmd/apply/patcher.go``).  The last applied manifest is in an annotation of the object.  ``--prune`` deletes objects that were
applied earlier and are in no current manifest (``cmd/apply/prune.go``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
from twisted.internet.task import deferLater

from kapi.client.discovery import APIResource
from kapi.client.errors import ClientError, StatusError
from kapi.client.three_way import OpenAPISchema, PatchConflict, three_way_patch
from kapi.codecs.yaml_writing import dump_yaml
from kapi.kubectl import last_applied
from kapi.kubectl.apply_migration import migrate
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.info import Info, items_of
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.waiting import wait_until_gone
from kapi.kubectl.writing import FLAGS as DELETE
from kapi.kubectl.writing import (
    LAST_APPLIED,
    WRITE,
    delete_options,
    dry_run_strategy,
    dry_run_suffix,
    field_manager,
    file_builder,
    propagation,
    recorded,
    validation,
    where,
    with_last_applied,
    with_source,
)
from kapi.machinery.go_json import json_text, sorted_fields
from kapi.machinery.status import Conflict, Invalid, NotFound
from kapi.machinery.tree import Object, Tree, dig

MAX_RETRIES, RETRY_SECONDS = 5, 1.0  # after a conflict; the wait before each retry but the first
_MISSING = (
    "Warning: resource {resource}/{name} is missing the {annotation} annotation which is required by {program} apply. "
    "{program} apply should only be used on resources created declaratively by either {program} create --save-config or "
    "{program} apply. The missing annotation will be patched automatically.\n"
)
_DELETED = "Warning: Detected changes to resource {} which is currently being deleted.\n"
_DEFAULT = (
    "core/v1/ConfigMap", "core/v1/Endpoints", "core/v1/Namespace", "core/v1/PersistentVolumeClaim",
    "core/v1/PersistentVolume", "core/v1/Pod", "core/v1/ReplicationController", "core/v1/Secret", "core/v1/Service",
    "batch/v1/Job", "batch/v1/CronJob", "networking.k8s.io/v1/Ingress", "apps/v1/DaemonSet", "apps/v1/Deployment",
    "apps/v1/ReplicaSet", "apps/v1/StatefulSet",
)  # fmt: skip
_EVERYTHING = (
    "all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. "
    "If you did not mean to prune all resources, specify a label selector"
)
FLAGS = (
    *WRITE,
    *DELETE,
    *shared("server-side force-conflicts subresource prune all prune-allowlist wait overwrite record"),
    Flag(
        "openapi-patch",
        "bool",
        default=True,
        help="Has no effect: patches follow the server's schema where it has one.",
    ),
)
#: applies one object; returns the operation, such as "created"
Apply = Callable[[Info], Awaitable[str]]
SUBCOMMANDS = last_applied.COMMANDS
HELP = Help(
    "-f FILENAME",
    "Makes objects as files describe them: creates what is not there, and changes what differs. Fields that no file ever had\n"
    "stay as they are.",
    ("Apply all files of a directory", "apply -f manifests/"),
    ('Let the server merge, as the manager "ci"', "apply --server-side --field-manager=ci -f web.yaml"),
    ("Delete what was applied with a label and is in no file any more", "apply -f manifests/ --prune -l app=web"),
)


class ClientSideApply:
    """``dry_run`` is "none", "client" or "server", ``fields`` the value of ``fieldValidation``.

    ``whole``: the complete object will be printed.  ``overwrite``: also what was changed since the last apply.
    ``openapi``: problems of patches are told for each schema of the server.
    """

    def __init__(
        self, factory: Factory, program: str, dry_run: str, fields: str, *,
        whole: bool, overwrite: bool = True, openapi: bool = True,
    ) -> None:  # fmt: skip
        self._factory, self._program, self._dry_run, self._whole = factory, program, dry_run, whole
        self._overwrite, self._openapi = overwrite, openapi
        self._options = {
            "dryRun": "All" if dry_run == "server" else None,
            "fieldManager": field_manager(factory.flags, "client-side-apply"),
            "fieldValidation": fields,
        }
        self._documents: dict[tuple[str, str], Object] = {}

    async def apply(self, info: Info) -> str:
        """Applies the manifest in ``info``, which then has the object.  Returns the operation.

        Raises StatusError and CommandError.
        """
        modified = with_last_applied(info.object or {})
        if not info.name:
            raise CommandError(
                f"error when retrieving current configuration of:\n{where(info)}\nfrom server for: "
                f'"{info.source}": resource name may not be empty'
            )
        try:
            current = await info.request(info.client.get()).do()
        except NotFound:
            return await self._create(info, modified)
        except StatusError as error:
            what = f"retrieving current configuration of:\n{where(info)}\nfrom server for:"
            raise with_source(what, info, error) from None
        metadata = current.get("metadata") or {}
        if LAST_APPLIED not in (metadata.get("annotations") or {}):
            resource, program = info.mapping.name, self._program
            self._factory.err.write(
                _MISSING.format(resource=resource, name=info.name, annotation=LAST_APPLIED, program=program)
            )
        if self._dry_run == "client":
            return await self._pretend(info, modified, current)
        patch = await self.merge(info, modified, current)
        return self._done(info, patch)

    def _done(self, info: Info, patch: Object) -> str:
        if dig(info.object, "metadata", "deletionTimestamp"):
            self._factory.err.write(_DELETED.format(info.name))
        return "configured" if patch else "unchanged"

    async def _create(self, info: Info, modified: Object) -> str:
        info.object = _without_nulls(modified)  # as an update would leave it
        if self._dry_run != "client":
            try:
                await info.create(**self._options)
            except StatusError as error:
                raise with_source("creating", info, error) from None
        return "created"

    async def _pretend(self, info: Info, modified: Object, current: Object) -> str:
        patch, strategic = await self._patch(info, modified, current)
        info.object = current
        if patch and self._whole:
            from kapi.kubectl.local_patch import patched

            info.object = patched(current, orjson.dumps(patch), "strategic" if strategic else "merge").tree
        return self._done(info, patch)

    async def merge(self, info: Info, modified: Object, current: Object) -> Object:
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
        """With ``--force``, deletes an unchangeable object and creates it again.  Raises StatusError and CommandError."""
        flags = self._factory.flags
        if self._dry_run == "server" or not flags.get_bool("force") or not isinstance(error, Conflict | Invalid):
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
        inner = with_source("patching", info, error)
        return with_source(f"applying patch:\n{json_text(patch)}\nto:\n{where(info)}\nfor:", info, inner)

    async def _patch(self, info: Info, modified: Object, current: Object) -> tuple[Object, bool]:
        """The patch, and whether it is a strategic one."""
        mapping, text = info.mapping, str(dig(current, "metadata", "annotations", LAST_APPLIED) or "")
        document = await self._document(mapping.group, mapping.version)
        schema = OpenAPISchema.of_kind(document, mapping.group, mapping.version, mapping.kind)
        try:
            patch = three_way_patch(_original(text), modified, current, schema, overwrite=self._overwrite)
            return patch, schema is not None
        except PatchConflict as error:
            wanted, changes = (dump_yaml(tree).decode() for tree in (error.patch, error.changes))
            why = f"patch:\n{wanted}\nconflicts with changes made from original to current:\n{changes}\n"
        except ValueError as error:
            why = str(error)
        if schema is not None and self._openapi:
            for spec in ("openapi v3", "openapi"):
                self._factory.err.write(f"warning: error calculating patch from {spec} spec: {why}\n")
        trees = f"original:\n{text}\nmodified:\n{json_text(modified)}\n\ncurrent:\n{json_text(current)}\n"
        patching = "" if self._dry_run == "client" else f'error when patching "{info.source}": '
        raise CommandError(
            f"error when applying patch:\n\nto:\n{where(info)}\n"
            f'for: "{info.source}": {patching}creating patch with:\n{trees}\nfor: {why}'
        )

    async def _document(self, group: str, version: str) -> Object:
        """The OpenAPI document of a group version, read once; {} when there is none."""
        found = self._documents.get((group, version))
        if found is None:
            try:
                found = await self._factory.openapi(group, version) or {}
            except (StatusError, ClientError):
                found = {}
            self._documents[group, version] = found
        return found


def _without_nulls(value: Tree) -> Tree:
    """Without null fields; a null item of a list stays."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def _original(text: str) -> Object:
    """The manifest that was applied last.  Raises ValueError."""
    try:
        found = orjson.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("invalid JSON document")
    return found


def check(factory: Factory) -> None:
    """Raises CommandError for flags that contradict each other."""
    flags = factory.flags
    if flags.get_bool("all") and flags.get_string("selector"):
        raise CommandError("cannot set --all and --selector at the same time")
    if not flags.get_bool("prune"):
        return
    if flags.get_bool("force"):
        raise CommandError("--force cannot be used with --prune")
    if not flags.get_bool("all") and not flags.get_string("selector"):
        raise CommandError(_EVERYTHING)
    if flags.get_bool("server-side"):
        raise CommandError("--prune is in alpha and doesn't currently work on objects created by server-side apply")


class Superfluous:
    """Objects that were applied earlier and are in no current manifest.  Call ``keep`` with each object of a manifest."""

    def __init__(self, factory: Factory, mappings: list[APIResource], selector: str, *namespaces: str) -> None:
        self._factory, self._mappings, self._selector = factory, mappings, selector
        self._applied: set[str] = set()
        self._namespaces = dict.fromkeys(namespaces)

    def keep(self, info: Info) -> None:
        if info.mapping.namespaced:
            self._namespaces[info.namespace] = None
        self._applied.add(str(((info.object or {}).get("metadata") or {}).get("uid") or ""))

    async def visit(self) -> AsyncIterator[Info]:
        """In the namespaces of the kept objects, then cluster-scoped objects.  Raises StatusError."""
        for namespace in self._namespaces:
            for mapping in self._mappings:
                if mapping.namespaced:
                    async for info in self._of(mapping, namespace):
                        yield info
        for mapping in self._mappings:
            if not mapping.namespaced:
                async for info in self._of(mapping, ""):
                    yield info

    async def _of(self, mapping: APIResource, namespace: str) -> AsyncIterator[Info]:
        client = self._factory.client(mapping.group_version)
        page = (
            await client.get().namespace(namespace).resource(mapping.name).param("labelSelector", self._selector).do()
        )
        for obj in items_of(page):
            metadata = obj["metadata"]
            if LAST_APPLIED in (metadata.get("annotations") or {}) and metadata.get("uid") not in self._applied:
                yield Info(client, mapping, namespace, metadata["name"], obj=obj)


async def allowed(factory: Factory) -> list[APIResource]:
    """The resources of ``--prune-allowlist``.  Raises CommandError and NoMatch."""
    texts = factory.flags.get_list("prune-allowlist") or _DEFAULT
    return [await factory.mapper.kind_for(*_named(text)) for text in texts]


async def _prune(factory: Factory, superfluous: Superfluous, dry_run: str) -> None:
    """``dry_run`` is "none", "client" or "server".  Raises StatusError."""
    flags = factory.flags
    printer = printer_for(flags, "pruned" + dry_run_suffix(dry_run))
    options = delete_options(propagation(flags), flags.get_int("grace-period"), dry_run)
    async for info in superfluous.visit():
        obj = info.object or {}
        if dry_run != "client":
            await info.delete(options)
            if flags.get_bool("wait") and dry_run == "none":
                await wait_until_gone(factory, [(info, obj["metadata"]["uid"])], flags.get_duration("timeout"))
        factory.out.write(printer.print(obj))


def _named(text: str) -> tuple[str, str]:
    """Version and kind of GROUP/VERSION/KIND.  Raises CommandError."""
    parts = text.split("/")
    if len(parts) != 3:
        raise CommandError(f"invalid GroupVersionKind format: {text}, please follow <group/version/kind>")
    group, version, kind = parts
    return (f"{group}/{version}" if group not in ("", "core") else version), kind


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    if flags.get_bool("force-conflicts") and not flags.get_bool("server-side"):
        raise CommandError("--force-conflicts only works with --server-side")
    if not flags.arguments:
        factory.check_config()
    builder, fields = file_builder(factory, program, "apply"), validation(flags.get_string("validate"))
    if dry_run == "client" and flags.get_bool("server-side"):
        raise CommandError("--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)")
    if flags.get_bool("force") and flags.get_bool("server-side"):
        raise CommandError("--force cannot be used with --server-side")
    if flags.get_bool("force") and dry_run == "server":
        raise CommandError("--dry-run=server cannot be used with --force")
    propagation(flags, factory.err)
    if flags.get_string("subresource") and not flags.get_bool("server-side"):
        raise CommandError("--subresource can only be specified for --server-side")
    check(factory)
    whole = bool(flags.get_string("template")) or flags.get_string("output") not in ("", "name")
    printer_for(flags)
    apply: Apply
    if flags.get_bool("server-side"):
        apply = _by_server(factory, dry_run, fields)
    else:
        overwrite, openapi = flags.get_bool("overwrite"), flags.get_bool("openapi-patch")
        side = ClientSideApply(factory, program, dry_run, fields, whole=whole, overwrite=overwrite, openapi=openapi)
        apply = side.apply
    pruner = None
    if flags.get_bool("prune"):
        namespaces = (factory.namespace,) if flags.get_string("namespace") else ()
        pruner = Superfluous(factory, await allowed(factory), flags.get_string("selector"), *namespaces)
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
        info.object = recorded(factory, program, info.object or {})
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
    raise_errors(result.before(errors))
    if not found:
        raise CommandError("no objects passed to apply")
    if whole:
        alone = len(applied) == 1
        listed: Object = {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": sorted_fields(applied)}
        factory.out.write(printer_for(flags, typed=not alone).print(applied[0] if alone else listed))
    if pruner is not None:
        await _prune(factory, pruner, dry_run)
    return 0


def _by_server(factory: Factory, dry_run: str, fields: str) -> Apply:
    flags = factory.flags
    manager = field_manager(flags)
    options = {
        "dryRun": "All" if dry_run == "server" else None,
        "fieldValidation": fields,
        "force": flags.get_bool("force-conflicts"),
    }

    async def apply(info: Info) -> str:
        if not info.name:
            raise CommandError("resource name may not be empty")
        manifest = info.object or {}
        try:
            await info.patch("apply", manifest, fieldManager=manager, **options)
        except Conflict as error:
            raise _conflict(error) from None
        await migrate(info, manifest, manager, options, factory.err.write)
        if (info.object or {})["metadata"].get("deletionTimestamp"):
            factory.err.write(_DELETED.format(info.name))
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
