"""Request headers by name, with all their values; where a single value counts, it is the first, as in Go."""

from __future__ import annotations

from kapi.request.context import RequestContext

MAX_HEADERS = 10_000  # of a message, more than any client sends: parsing so many takes some ms


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace").strip()


def all_headers(ctx: RequestContext, name: str) -> list[str]:
    """Every value of a header, in order."""
    return [_text(value) for value in ctx.http.requestHeaders.getRawHeaders(name.encode("latin-1"), ())]


def first_header(ctx: RequestContext, name: str) -> str:
    """The first value of a header, or ""."""
    values = ctx.http.requestHeaders.getRawHeaders(name.encode("latin-1"), ())
    return _text(values[0]) if values else ""


def headers_with_prefix(ctx: RequestContext, prefix: str) -> list[tuple[str, list[str]]]:
    """(lower-case rest of the name, values) of each header whose name starts with ``prefix``, sorted by name."""
    wanted = prefix.lower().encode("latin-1")
    found = [
        (name[len(wanted) :].decode("utf-8", "replace").lower(), [_text(value) for value in values])
        for name, values in ctx.http.requestHeaders.getAllRawHeaders()
        if name.lower().startswith(wanted)
    ]
    return sorted(found)


def any_header_with_prefix(ctx: RequestContext, prefix: bytes) -> bool:
    """Whether there is such a header; ``prefix`` in its canonical capitalization."""
    for name, _ in ctx.http.requestHeaders.getAllRawHeaders():
        if name.startswith(prefix):
            return True
    return False


def remove_header(ctx: RequestContext, name: str) -> None:
    """Removes a credential from the request, so that no later code sees or forwards it."""
    ctx.http.requestHeaders.removeHeader(name.encode("latin-1"))


def remove_headers_with_prefix(ctx: RequestContext, prefix: str) -> None:
    wanted = prefix.lower().encode("latin-1")
    headers = ctx.http.requestHeaders
    for name in [name for name, _ in headers.getAllRawHeaders() if name.lower().startswith(wanted)]:
        headers.removeHeader(name)
