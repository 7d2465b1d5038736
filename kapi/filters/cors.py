"""Cross-origin requests: ``--cors-allowed-origins`` (upstream: apiserver ``server/filters/cors.go``)."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.filters.chain import Filter
from kapi.request.context import RequestContext
from kapi.request.headers import first_header
from kapi.request.response import Response

_METHODS = b"POST, GET, OPTIONS, PUT, DELETE, PATCH"
_HEADERS = (
    b"Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since"
)


def cors(origins: Sequence[str]) -> Filter:
    """``origins`` are patterns, matched anywhere in the Origin header.  Raises ValueError for a bad pattern.

    A preflight request of an allowed origin is answered here; an origin that is not allowed gets no headers.
    """
    import re2  # imported only when it is used

    try:
        patterns = [re2.compile(origin) for origin in origins]
    except re2.error as error:
        raise ValueError(
            f"Invalid CORS allowed origin, --cors-allowed-origins flag was set to {origins}: {error}"
        ) from None

    def share(ctx: RequestContext) -> Response | None:
        origin = first_header(ctx, "Origin")
        if not origin or not any(pattern.search(origin) for pattern in patterns):
            return None
        ctx.response_headers += [
            (b"access-control-allow-origin", origin.encode("utf-8", "surrogateescape")),
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _HEADERS),
            (b"access-control-expose-headers", b"Date"),
            (b"access-control-allow-credentials", b"true"),
        ]
        return Response(204, b"", b"") if ctx.method == "OPTIONS" else None

    return share
