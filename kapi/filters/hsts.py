"""``--strict-transport-security-directives`` (upstream: ``server/filters/hsts.go``)."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.filters.chain import Filter
from kapi.request.context import RequestContext


def hsts(directives: Sequence[str]) -> Filter:
    header = (b"strict-transport-security", "; ".join(directives).encode())

    def add(ctx: RequestContext) -> None:
        ctx.response_headers.append(header)

    return add
