"""No client caches an answer: ``Cache-Control: no-cache, private`` (upstream: ``endpoints/filters/cachecontrol.go``).

A handler may replace the header by its own.
"""

from __future__ import annotations

from kapi.request.context import RequestContext

_HEADER = (b"cache-control", b"no-cache, private")


def cache_control(ctx: RequestContext) -> None:
    ctx.response_headers.append(_HEADER)
