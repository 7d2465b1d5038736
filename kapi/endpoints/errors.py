"""Turns errors into responses (upstream: ``responsewriters/errors.go`` and ``status.go``)."""

from __future__ import annotations

from kapi.authorization.forbidden import escaped
from kapi.codecs.negotiation import MediaType, error_media_type
from kapi.endpoints.encoding import encode, respond_tree
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import OutOfTime, StatusError, internal
from kapi.registry.errors import interpret
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.store.errors import StoreError

_PLAIN = b"text/plain; charset=utf-8"


def status_response(ctx: RequestContext, error: StatusError) -> Response:
    """The response with an API error, in the requested media type."""
    if ctx.audit is not None:
        ctx.audit.status_object(error.status)
    if isinstance(error, OutOfTime):
        # without kind and apiVersion it is no Status: clients report that no response came in time
        untyped = {name: value for name, value in error.status.items() if name not in ("kind", "apiVersion")}
        return Response(error.code, encode(untyped, MediaType()), _PLAIN)
    media = error_media_type(ctx)
    headers = [(name.encode(), value.encode()) for name, value in error.headers]
    if error.retry_after:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    response = respond_tree(ctx, error.code, error.status, media)
    response.headers = tuple(headers)
    return response


def to_status(error: BaseException) -> StatusError:
    """The API error for an exception; an unexpected one becomes an internal error that does not show its text."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, StoreError):
        return interpret(error, GroupResource("", ""), "")
    return internal("the server met an unexpected error; see its log under the audit id")


def internal_error(ctx: RequestContext, error: str) -> Response:
    """The answer of a filter that fails: 500 in plain text."""
    uri = ctx.http.uri.decode("utf-8", "replace")
    text = escaped(f"Internal Server Error: {quote(uri)}: {error}") + "\n"
    return Response(500, text.encode(), _PLAIN, [(b"x-content-type-options", b"nosniff")])
