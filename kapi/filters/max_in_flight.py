"""A plain bound on requests that run at once, for servers without priority and fairness.

Upstream: ``maxinflight.go``.
"""

from __future__ import annotations

from kapi.filters.chain import Filter
from kapi.filters.priority_and_fairness import too_many_requests
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import SYSTEM_MASTERS

_READS = frozenset({"get", "list", "watch"})


class InFlight:
    """How many run now."""

    def __init__(self) -> None:
        self.reads = 0
        self.writes = 0
        self.rejected = 0


def max_in_flight(reads: int, writes: int, counts: InFlight | None = None) -> Filter:
    """``reads`` and ``writes`` are the bounds; 0 is none.  Members of system:masters are never turned away."""
    running = counts or InFlight()

    def read(ctx: RequestContext, code: int) -> None:
        running.reads -= 1

    def written(ctx: RequestContext, code: int) -> None:
        running.writes -= 1

    def check(ctx: RequestContext) -> Response | None:
        assert ctx.info is not None
        if ctx.info.long_running:
            return None
        write = ctx.info.verb not in _READS
        limit, now = (writes, running.writes) if write else (reads, running.reads)
        if limit and now >= limit and (ctx.user is None or SYSTEM_MASTERS not in ctx.user.groups):
            running.rejected += 1
            return too_many_requests(1)
        if write:
            running.writes += 1
        else:
            running.reads += 1
        ctx.finishers.append(written if write else read)
        return None

    return check
