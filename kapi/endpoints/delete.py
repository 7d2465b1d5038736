"""DELETE of one object and of a collection."""

from __future__ import annotations

from collections.abc import Coroutine

from kapi.codecs.negotiation import input_media_type, output_media_type
from kapi.codecs.reading import DecodingError
from kapi.endpoints.body import raw_body, read_any
from kapi.endpoints.encoding import respond_object, respond_tree
from kapi.endpoints.listing import list_response
from kapi.endpoints.options import check_delete_options, delete_options_from_query, list_options
from kapi.endpoints.scope import RequestScope, request_name
from kapi.endpoints.selection import predicate_of
from kapi.machinery import status
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.registry import read
from kapi.registry.delete import delete
from kapi.registry.delete import delete_collection as delete_all
from kapi.registry.deletions import PendingDeletion
from kapi.registry.operation import Stored
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.schema.builtin import definition
from kapi.schema.decode import decode
from kapi.watchcache.entry import Entry

_OPTIONS = GroupVersionKind("meta.k8s.io", "v1", "DeleteOptions")


def _delete_options(ctx: RequestContext) -> Object:
    """The DeleteOptions of the body if there is one, else of the query.  Raises BadRequest and Invalid."""
    data = raw_body(ctx)
    if not data:
        options = delete_options_from_query(ctx)
    else:
        media = input_media_type(ctx.header("content-type"))
        try:
            body = read_any(data, media, _OPTIONS)
            options = decode(
                body, _OPTIONS, definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"), "Ignore", ctx.warn
            )
        except DecodingError as error:
            raise status.bad_request(error.cause) from None
        if options.get("kind") != "DeleteOptions":
            raise status.bad_request("decoded object cannot be converted to DeleteOptions")
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
        return respond_object(ctx, scope, code, await scope.answered(stored.obj), None, media)
    return respond_tree(code, deleted_status(scope, stored.obj), media)


def deleted_status(scope: RequestScope, obj: Object) -> Object:
    metadata = obj["metadata"]
    details: Object = {"name": metadata["name"]}
    if scope.resource.group:
        details["group"] = scope.resource.group
    details["kind"] = scope.resource.plural
    if "uid" in metadata:  # of an unreadable object only the name is known
        details["uid"] = metadata["uid"]
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


async def delete_collection(ctx: RequestContext, scope: RequestScope) -> Response:
    """Deletes the objects that match the selectors, up to the limit; 200 with the list of them."""
    info = ctx.info
    assert info is not None
    media = output_media_type(ctx, "delete")
    chosen = list_options(ctx)
    options = _delete_options(ctx)
    namespace = info.namespace if scope.resource.namespaced else ""
    await in_slices  # each object is processed
    page = await read.list_page(
        scope.store,
        namespace,
        predicate_of(scope, chosen),
        resource_version=chosen.resource_version,
        match=chosen.resource_version_match,
        limit=chosen.limit,
        token=chosen.continue_,
    )

    def delete_one(entry: Entry, pending: PendingDeletion) -> Coroutine[object, object, Stored]:
        op = scope.operation(ctx, entry.name, dict(options), "", bool(options.get("dryRun")))
        op.namespace, op.collection, op.pending = entry.namespace, True, pending
        return delete(scope.store, op)

    store = scope.store
    await delete_all(store.store, page.entries, delete_one, store.environment.delete_workers, store.cache.call)
    return list_response(ctx, scope, page, media)
