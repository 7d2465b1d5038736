"""Request info: parses the request line once, for all who come after (upstream: ``filters/requestinfo.go``)."""

from __future__ import annotations

from kapi.request.context import RequestContext
from kapi.request.parse import parse_request_info


def request_info(ctx: RequestContext) -> None:
    """Sets ``ctx.info``.  Raises BadRequest when the path cannot be understood."""
    if ctx.info is None:
        ctx.info = parse_request_info(ctx.method, ctx.path, ctx.query)
