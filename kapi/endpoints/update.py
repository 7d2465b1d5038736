"""PUT: the whole object, or that of a subresource which writes its parent."""

from __future__ import annotations

from kapi.codecs.negotiation import input_media_type, output_media_type
from kapi.endpoints.authorization import create_check
from kapi.endpoints.body import check_names, decode_object, raw_body, read_any
from kapi.endpoints.create import stored_response
from kapi.endpoints.options import write_options
from kapi.endpoints.scope import RequestScope, request_name
from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry.update import update
from kapi.request.context import RequestContext
from kapi.request.response import Response


async def update_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """200 with the stored object, 201 when the update created it.  Raises StatusError."""
    info = ctx.info
    assert info is not None
    name = request_name(ctx)
    media = output_media_type(ctx, "update", scope.subresource is None or scope.subresource.tabular)
    data = raw_body(ctx)
    options = write_options(ctx, "UpdateOptions")
    obj = decode_object(ctx, data, scope.kind, scope.type, options.field_validation)
    if ctx.audit is not None:
        ctx.audit.request_object(obj)
    meta.ensure_namespace(obj, info.namespace if scope.resource.namespaced else "", scope.gvr)
    check_names(ctx, scope, obj)
    obj = scope.to_storage(obj)
    scope.resource.strategy.default(obj)
    op = scope.operation(ctx, name, options.tree, options.field_manager, options.dry_run)
    op.warn(meta.dedup_owner_references(obj, after_admission=False))
    op.authorize_create = create_check(ctx, scope)
    op.sent = lambda: read_any(data, input_media_type(ctx.header("content-type")), scope.kind, "Ignore")

    async def transform(existing: Object | None) -> Object:
        new: Object = tree.copy(obj)  # an attempt may change it and still lose
        scope.store.track_update(op, existing, new)
        return new

    stored = await update(scope.store, op, transform, uid=obj["metadata"].get("uid", ""))
    if not stored.created and not op.dry_run:
        scope.store.keep_decoded(stored, op.namespace, name)
    return await stored_response(ctx, scope, 201 if stored.created else 200, stored, media)
