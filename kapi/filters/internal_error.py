"""The answer of a filter that fails: 500 in plain text (upstream: ``responsewriters.InternalError``)."""

from __future__ import annotations

from kapi.authorization.forbidden import escaped
from kapi.machinery.golang import quote
from kapi.request.context import RequestContext
from kapi.request.response import Response


def internal_error(ctx: RequestContext, error: str) -> Response:
    uri = ctx.http.uri.decode("utf-8", "replace")
    text = escaped(f"Internal Server Error: {quote(uri)}: {error}") + "\n"
    headers = [(b"x-content-type-options", b"nosniff")]
    return Response(500, text.encode(), b"text/plain; charset=utf-8", headers)
