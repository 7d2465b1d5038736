"""POST of a new object."""

from __future__ import annotations

from kapi.codecs.negotiation import output_media_type
from kapi.endpoints.scope import RequestScope
from kapi.endpoints.writing import read_new, stored_response
from kapi.registry.create import create
from kapi.request.context import RequestContext
from kapi.request.response import Response


async def create_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """201 with the stored object.  Raises StatusError."""
    media = output_media_type(ctx, "create")
    op, obj = read_new(ctx, scope)
    stored = await create(scope.store, op, obj)
    return await stored_response(ctx, scope, op, stored, media)
