"""GET, POST, PUT and DELETE of one object, and DELETE of a collection.

Errors are found in upstream's order (``endpoints/handlers/{get,create,update,delete}.go``).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import NamedTuple

from kapi.codecs.negotiation import MediaType, input_media_type, output_media_type
from kapi.codecs.reading import DecodingError
from kapi.endpoints.authorization import create_check
from kapi.endpoints.body import check_name, decode_object, raw_body, read_any
from kapi.endpoints.encoding import respond_message, respond_object, respond_tree
from kapi.endpoints.listing import list_response
from kapi.endpoints.options import (
    WriteOptions,
    check_delete_options,
    delete_options_from_query,
    list_options,
    write_options,
)
from kapi.endpoints.scope import RequestScope, request_name
from kapi.endpoints.selection import predicate_of
from kapi.machinery import status, tree
from kapi.machinery.checkpoint import LARGE, in_slices
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry import read
from kapi.registry.create import create
from kapi.registry.delete import delete
from kapi.registry.delete import delete_collection as delete_all
from kapi.registry.deletions import PendingDeletion
from kapi.registry.operation import Operation, Stored
from kapi.registry.update import update
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.schema.builtin import definition
from kapi.schema.decode import decode
from kapi.watchcache.entry import Entry

_OPTIONS = GroupVersionKind("meta.k8s.io", "v1", "DeleteOptions")


class Written(NamedTuple):
    """The object to write, in the storage version and with defaults."""

    operation: Operation
    obj: Object


def read_new(ctx: RequestContext, scope: RequestScope) -> Written:
    """The object of a POST.  Raises StatusError."""
    sent_as = input_media_type(ctx)  # before any other check
    data = raw_body(ctx)
    options = write_options(ctx, "CreateOptions")
    obj = _decoded(ctx, scope, data, options, sent_as)
    metadata = obj.setdefault("metadata", {})
    meta.wipe_system_fields(metadata)
    _ensure_namespace(ctx, scope, obj)
    return _written(ctx, scope, metadata.get("name", ""), obj, data, options, sent_as)


def read_replacement(ctx: RequestContext, scope: RequestScope, name: str) -> Written:
    """The object of a PUT to ``name``.  Raises StatusError."""
    data = raw_body(ctx)
    options = write_options(ctx, "UpdateOptions")
    sent_as = input_media_type(ctx)
    obj = _decoded(ctx, scope, data, options, sent_as)
    _ensure_namespace(ctx, scope, obj)
    check_name(ctx, obj)
    written = _written(ctx, scope, name, obj, data, options, sent_as)
    op = written.operation
    op.warn(meta.dedup_owner_references(written.obj, after_admission=False))
    op.authorize_create = create_check(ctx, scope)
    return written


def _decoded(ctx: RequestContext, scope: RequestScope, data: bytes, options: WriteOptions, sent_as: str) -> Object:
    """The object in the storage version and with defaults; the audit event gets it in the version that was sent."""
    obj = decode_object(ctx, data, scope.kind, scope.type, options.field_validation, sent_as)
    obj = scope.to_storage(obj)
    scope.resource.strategy.default(obj)
    if ctx.audit is not None and scope.resource.typed_items:  # custom objects are still in the version that was sent
        ctx.audit.request_object(obj)
    elif ctx.audit is not None:
        ctx.audit.request_object(obj, scope.from_storage)
    return obj


def _ensure_namespace(ctx: RequestContext, scope: RequestScope, obj: Object) -> None:
    assert ctx.info is not None
    meta.ensure_namespace(obj, ctx.info.namespace if scope.resource.namespaced else "", scope.gvr)


def _written(
    ctx: RequestContext, scope: RequestScope, name: str, obj: Object, data: bytes, options: WriteOptions, sent_as: str
) -> Written:
    op = scope.operation(ctx, name, options.tree, options.field_manager, options.dry_run)
    op.sent = lambda: read_any(data, sent_as, scope.kind)
    return Written(op, obj)


async def stored_response(
    ctx: RequestContext, scope: RequestScope, op: Operation, stored: Stored, media: MediaType
) -> Response:
    """201 with a created object, 200 with a changed one: the stored bytes when the requested version is the stored one."""
    if not stored.created and not op.dry_run:
        scope.store.keep_decoded(stored, op.namespace, op.name)
    code = 201 if stored.created else 200
    if scope.same_version:
        return respond_object(ctx, scope, code, stored.obj, stored.data, media)
    return respond_object(ctx, scope, code, await scope.answered(stored.obj), None, media, stored.obj)


async def get_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """200 with the object: its stored bytes, unless another media type or version was requested.  Raises StatusError."""
    info = ctx.info
    assert info is not None
    media = output_media_type(ctx, "get", scope.subresource is None or scope.subresource.tabular)
    if ctx.query and ctx.first("export") not in ("", "false", "0"):
        raise status.bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    namespace = info.namespace if scope.resource.namespaced else ""
    version = ctx.first("resourceVersion") if ctx.query else ""
    entry = await read.get(scope.store, namespace, request_name(ctx), version, scope.resource)
    if not media.plain and len(entry.data) >= LARGE or scope.may_take_long(entry, media.plain):
        await in_slices  # encoding it takes long
    if media.protobuf and not media.as_kind:
        return respond_message(ctx, scope, entry)
    if scope.same_version or media.plain:
        return respond_object(ctx, scope, 200, None, scope.served(entry), media)
    return respond_object(ctx, scope, 200, scope.from_storage(entry.object), None, media, entry.object)


async def create_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """201 with the stored object.  Raises StatusError."""
    media = output_media_type(ctx, "create")
    op, obj = read_new(ctx, scope)
    stored = await create(scope.store, op, obj)
    return await stored_response(ctx, scope, op, stored, media)


async def update_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """200 with the stored object, 201 when the update created it.  Raises StatusError."""
    name = request_name(ctx)
    media = output_media_type(ctx, "update", scope.subresource is None or scope.subresource.tabular)
    op, obj = read_replacement(ctx, scope, name)

    async def transform(existing: Object | None) -> Object:
        new: Object = tree.copy(obj)  # an attempt may change it and then fail with a conflict
        scope.store.track_update(op, existing, new)
        return new

    stored = await update(scope.store, op, transform, uid=obj["metadata"].get("uid", ""))
    return await stored_response(ctx, scope, op, stored, media)


def _delete_options(ctx: RequestContext) -> Object:
    """The DeleteOptions of the body if there is one, else of the query.  Raises BadRequest and Invalid."""
    data = raw_body(ctx)
    if not data:
        options = delete_options_from_query(ctx)
    else:
        media = input_media_type(ctx)
        try:
            body = read_any(data, media, _OPTIONS)
            options = decode(
                body, _OPTIONS, definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"), "Ignore", ctx.warn
            )
        except DecodingError as error:
            raise status.bad_request(error.cause) from None
        if ctx.audit is not None:
            ctx.audit.request_object(options)
    check_delete_options(options)
    return {**options, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


async def delete_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """200 with a Status (or the object, for some types); 202 while the deletion waits for dependents."""
    name = request_name(ctx)
    media = output_media_type(ctx, "delete")
    options = _delete_options(ctx)
    op = scope.operation(ctx, name, options, "", bool(options.get("dryRun")))
    stored = await delete(scope.store, op)
    code = 202 if not stored.deleted and options.get("orphanDependents") is False else 200
    if not stored.deleted or (scope.resource.returns_deleted and "uid" in stored.obj["metadata"]):
        if scope.same_version:
            return respond_object(ctx, scope, code, stored.obj, stored.data, media)
        return respond_object(ctx, scope, code, await scope.answered(stored.obj), None, media, stored.obj)
    return respond_tree(ctx, code, deleted_status(scope, stored.obj), media)


def deleted_status(scope: RequestScope, obj: Object) -> Object:
    metadata = obj["metadata"]
    details: Object = {"name": metadata["name"]}
    if scope.resource.group:
        details["group"] = scope.resource.group
    details["kind"] = scope.resource.plural
    if "uid" in metadata:  # only the name of an unreadable object is known
        details["uid"] = metadata["uid"]
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


async def delete_collection(ctx: RequestContext, scope: RequestScope) -> Response:
    """Deletes the objects that match the selectors, up to the limit; 200 with the list of them."""
    info = ctx.info
    assert info is not None
    media = output_media_type(ctx, "delete")
    chosen = list_options(ctx)
    predicate = predicate_of(scope, chosen)  # before the body, so that its errors come first
    options = _delete_options(ctx)
    namespace = info.namespace if scope.resource.namespaced else ""
    await in_slices  # each object is processed
    for text in scope.store.row.strategy.warnings_on_delete(options):
        ctx.warn(text)
    page = await read.list_page(
        scope.store,
        namespace,
        predicate,
        resource_version=chosen.resource_version,
        match=chosen.resource_version_match,
        limit=chosen.limit,
        token=chosen.continue_,
        paged=chosen.limit == 0,
    )

    def delete_one(entry: Entry, pending: PendingDeletion) -> Coroutine[object, object, Stored]:
        op = scope.operation(ctx, entry.name, dict(options), "", bool(options.get("dryRun")))
        op.namespace, op.collection, op.pending = entry.namespace, True, pending
        return delete(scope.store, op)

    store = scope.store
    await delete_all(store.store, page.entries, delete_one, store.environment.delete_workers, store.cache.call)
    return list_response(ctx, scope, page, media, predicate)
