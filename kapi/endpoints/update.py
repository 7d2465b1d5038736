"""PUT of an object, or of a subresource that writes its parent."""

from __future__ import annotations

from kapi.codecs.negotiation import output_media_type
from kapi.endpoints.scope import RequestScope, request_name
from kapi.endpoints.writing import read_replacement, stored_response
from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.registry.update import update
from kapi.request.context import RequestContext
from kapi.request.response import Response


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
