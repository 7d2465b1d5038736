"""Headers of answers: ``Cache-Control``, ``--strict-transport-security-directives``, and the texts of ``Warning``.

Clients must not cache answers, unless a handler sets another ``Cache-Control``.  ``ctx.warn`` collects warnings, each text once;
the response writer puts them into headers, up to a limit.
Upstream: ``endpoints/filters/{cachecontrol,warning}.go``, ``server/filters/hsts.go``; KEP-1693.
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


def warnings(ctx: RequestContext) -> None:
    ctx.warnings.clear()
