"""GET of one object."""

from __future__ import annotations

from kapi.codecs.negotiation import output_media_type
from kapi.endpoints.encoding import message_of_entry, respond_message, respond_object
from kapi.endpoints.scope import RequestScope, request_name
from kapi.machinery import status
from kapi.machinery.checkpoint import LARGE, in_slices
from kapi.registry import read
from kapi.request.context import RequestContext
from kapi.request.response import Response


async def get_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """200 with the object: its stored bytes, unless another media type or version was requested.  Raises StatusError."""
    info = ctx.info
    assert info is not None
    media = output_media_type(ctx, "get", scope.subresource is None or scope.subresource.tabular)
    if ctx.query and ctx.first("export") not in ("", "false", "0"):
        raise status.bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    namespace = info.namespace if scope.resource.namespaced else ""
    version = ctx.first("resourceVersion") if ctx.query else ""
    entry = await read.get(scope.store, namespace, request_name(ctx), version)
    if not media.plain and len(entry.data) >= LARGE or scope.may_take_long(entry, media.plain):
        await in_slices  # encoding it takes long
    if media.protobuf and not media.as_kind:
        return respond_message(200, scope.kind, message_of_entry(scope, entry))
    if scope.same_version or media.plain:
        return respond_object(ctx, scope, 200, None, scope.served(entry), media)
    return respond_object(ctx, scope, 200, scope.from_storage(entry.object), None, media, entry.object)
