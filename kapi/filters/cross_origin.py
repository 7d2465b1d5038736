"""A page of another origin may not write or open a WebSocket with the client certificate of the browser that shows it.

Browsers show a certificate whoever asks for it, so any page could act as the user (cross-site request forgery).  Upstream has no
such filter, as it serves no pages.  It follows Go's ``http.CrossOriginProtection``; an upgrade is no safe method here, since any
page may read a WebSocket.

Pages that come through a proxy have the console's origin; ``kapi.endpoints.proxy_handler`` takes it from them.
"""

from __future__ import annotations

from kapi.filters.chain import Filter
from kapi.machinery.status import Forbidden
from kapi.request.context import RequestContext
from kapi.request.headers import first_header
from kapi.request.user import CREDENTIAL_ID

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
            return  # a token is given by the page itself
        if _is_other(ctx) and not any(name == _ALLOWED for name, _ in ctx.response_headers):
            raise Forbidden("pages of other origins may not use a client certificate")

    return check


def _is_other(ctx: RequestContext) -> bool:
    site, origin = first_header(ctx, "Sec-Fetch-Site"), first_header(ctx, "Origin")
    if site:
        return site not in _OWN
    return bool(origin) and origin.partition("://")[2].lower() != first_header(ctx, "Host").lower()
