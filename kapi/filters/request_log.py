"""Logs one line for each request, with its duration (upstream: apiserver ``server/httplog`` and ``filterlatency``).

Headers, bodies and query values are not logged, since a URL may contain a token.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from kapi.filters.chain import Filter
from kapi.request.context import RequestContext

log = Logger()
_SLOW_SECONDS = 1.0  # slower requests are logged, except watches, which always last long


def request_log(seconds: Callable[[], float], *, verbose: bool) -> Filter:
    """Logs every request when ``verbose``, otherwise requests that failed with 5xx or were slow."""

    def start(ctx: RequestContext) -> None:
        ctx.finishers.append(finish)

    def finish(ctx: RequestContext, code: int) -> None:
        took = seconds() - ctx.received
        info = ctx.info
        waited = info is not None and info.verb == "watch"
        if verbose or code >= 500 or (took > _SLOW_SECONDS and not waited):
            user, original = ctx.user, ctx.original_user
            log.info(
                "{method} {path} {code} {latency:.3f}s",
                method=ctx.method,
                path=ctx.path,
                verb=info.verb if info is not None else "",
                code=code,
                latency=took,
                agent=ctx.header("user-agent") or "",
                user=user.name if user is not None else "",
                impersonated_by=original.name if original is not None else "",
                audit_id=ctx.audit_id,
            )

    return start
