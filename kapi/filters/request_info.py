"""Sets the context for later filters: the time of arrival, for deadlines and latencies, and the parsed request line.

Upstream: ``filters/requestinfo.go``, ``filters/request_received_time.go``.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.endpoints.errors import internal_error
from kapi.filters.chain import Filter
from kapi.request.context import RequestContext
from kapi.request.parse import NoResource, parse_request_info
from kapi.request.response import Response


def received_timestamp(seconds: Callable[[], float]) -> Filter:
    """``seconds`` is the reactor's monotonic clock."""

    def note(ctx: RequestContext) -> None:
        ctx.received = seconds()

    return note


def request_info(ctx: RequestContext) -> Response | None:
    """Sets ``ctx.info``, or answers 500 for a path whose RequestInfo cannot be determined."""
    if ctx.info is None:
        try:
            ctx.info = parse_request_info(ctx.method, ctx.path, ctx.query)
        except NoResource:
            url = ctx.http.uri.decode("utf-8", "replace")
            return internal_error(
                ctx, f"failed to create RequestInfo: unable to determine kind and namespace from url, {url}"
            )
    return None
