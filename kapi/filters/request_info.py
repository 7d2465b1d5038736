"""Request info: parses the request line once, for all later filters (upstream: ``filters/requestinfo.go``)."""

from __future__ import annotations

from kapi.filters.internal_error import internal_error
from kapi.request.context import RequestContext
from kapi.request.parse import NoResource, parse_request_info
from kapi.request.response import Response


def request_info(ctx: RequestContext) -> Response | None:
    """Sets ``ctx.info``, or answers 500 for a path that names no resource."""
    if ctx.info is None:
        try:
            ctx.info = parse_request_info(ctx.method, ctx.path, ctx.query)
        except NoResource:
            url = ctx.http.uri.decode("utf-8", "replace")
            return internal_error(
                ctx, f"failed to create RequestInfo: unable to determine kind and namespace from url, {url}"
            )
    return None
