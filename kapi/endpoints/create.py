"""POST of a new object."""

from __future__ import annotations

from kapi.codecs.negotiation import MediaType, input_media_type, output_media_type
from kapi.endpoints.body import decode_object, raw_body, read_any
from kapi.endpoints.encoding import respond_object
from kapi.endpoints.options import write_options
from kapi.endpoints.scope import RequestScope
from kapi.registry import metadata as meta
from kapi.registry.create import create
from kapi.registry.operation import Stored
from kapi.request.context import RequestContext
from kapi.request.response import Response


async def create_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """201 with the stored object.  Raises StatusError."""
    info = ctx.info
    assert info is not None
    media = output_media_type(ctx, "create")
    # refused before anything else is looked at, unlike in an update
    sent_as = input_media_type(ctx.header("content-type"))
    data = raw_body(ctx)
    options = write_options(ctx, "CreateOptions")
    obj = decode_object(ctx, data, scope.kind, scope.type, options.field_validation, sent_as)
    if ctx.audit is not None:
        ctx.audit.request_object(obj)
    metadata = obj.setdefault("metadata", {})
    meta.wipe_system_fields(metadata)
    namespace = info.namespace if scope.resource.namespaced else ""
    meta.ensure_namespace(obj, namespace, scope.gvr)
    obj = scope.to_storage(obj)
    scope.resource.strategy.default(obj)
    op = scope.operation(ctx, metadata.get("name", ""), options.tree, options.field_manager, options.dry_run)
    op.sent = lambda: read_any(data, sent_as, scope.kind, "Ignore")
    stored = await create(scope.store, op, obj)
    return await stored_response(ctx, scope, 201, stored, media)


async def stored_response(
    ctx: RequestContext, scope: RequestScope, code: int, stored: Stored, media: MediaType
) -> Response:
    """The answer of a write: the stored bytes themselves when they are in the version asked for."""
    if ctx.audit is not None:
        ctx.audit.response_object(stored.obj)
    if scope.same_version:
        return respond_object(ctx, scope, code, stored.obj, stored.data, media)
    return respond_object(ctx, scope, code, await scope.answered(stored.obj), None, media)
