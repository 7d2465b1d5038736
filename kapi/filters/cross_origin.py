"""Requests of pages from other origins: CORS for ``--cors-allowed-origins``; all other origins may not use a client certificate.

A browser sends the client certificate with the requests of every page, so any page could act as the user (cross-site request
forgery).  Upstream has no such filter, since it serves no pages.  The filter follows Go's ``http.CrossOriginProtection``, but an
upgrade is no safe method here, since any page may read a WebSocket.
Pages that come through a proxy would have the console's origin; ``kapi.endpoints.proxy_handler`` prevents this.
Upstream: apiserver ``server/filters/cors.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapi.filters.chain import Filter
from kapi.machinery.status import Forbidden
from kapi.request.context import RequestContext
from kapi.request.headers import first_header
from kapi.request.response import Response
from kapi.request.user import CREDENTIAL_ID

_METHODS = b"POST, GET, OPTIONS, PUT, DELETE, PATCH"
_HEADERS = (
    b"Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since"
)


def cors(origins: Sequence[str]) -> Filter:
    """``origins`` are patterns, matched anywhere in the Origin header; the options have checked them.

    A preflight request of an allowed origin is answered here; an origin that is not allowed gets no headers.
    """
    import re2  # imported only when it is used

    patterns = [re2.compile(origin) for origin in origins]

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


_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN = frozenset({"same-origin", "none"})
_ALLOWED = b"access-control-allow-origin"


def cross_origin() -> Filter:
    """Comes after CORS, whose allowed origins it accepts, and authentication.  Raises Forbidden."""

    def check(ctx: RequestContext) -> None:
        ctx.sandboxed = True
        if ctx.method in _SAFE and not first_header(ctx, "Upgrade"):
            return
        user = ctx.user
        if user is None or not user.extra.get(CREDENTIAL_ID, ("",))[0].startswith("X509SHA256="):
            return  # only the page itself can add a token, not the browser
        if _is_other(ctx) and not any(name == _ALLOWED for name, _ in ctx.response_headers):
            raise Forbidden("pages of other origins may not use a client certificate")

    return check


def _is_other(ctx: RequestContext) -> bool:
    site, origin = first_header(ctx, "Sec-Fetch-Site"), first_header(ctx, "Origin")
    if site:
        return site not in _OWN
    return bool(origin) and origin.partition("://")[2].lower() != first_header(ctx, "Host").lower()
