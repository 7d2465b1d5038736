"""Headers that every answer has: ``Cache-Control``, and ``--strict-transport-security-directives``.

No client caches an answer; a handler may replace the header by its own.
Upstream: ``endpoints/filters/cachecontrol.go``, ``server/filters/hsts.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapi.filters.chain import Filter
from kapi.request.context import RequestContext

_HEADER = (b"cache-control", b"no-cache, private")


def cache_control(ctx: RequestContext) -> None:
    ctx.response_headers.append(_HEADER)


def hsts(directives: Sequence[str]) -> Filter:
    header = (b"strict-transport-security", "; ".join(directives).encode())

    def add(ctx: RequestContext) -> None:
        ctx.response_headers.append(header)

    return add
