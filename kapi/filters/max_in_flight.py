"""A plain limit of concurrent requests, for servers without priority and fairness.

Upstream: ``maxinflight.go``.
"""

from __future__ import annotations

from kapi.filters.chain import Filter
from kapi.filters.priority_and_fairness import too_many_requests
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import SYSTEM_MASTERS

_READS = frozenset({"get", "list", "watch"})


def max_in_flight(reads: int, writes: int) -> Filter:
    """``reads`` and ``writes`` are the limits; 0 means no limit.  Members of system:masters are never rejected."""
    reading = writing = 0

    def read(ctx: RequestContext, code: int) -> None:
        nonlocal reading
        reading -= 1

    def written(ctx: RequestContext, code: int) -> None:
        nonlocal writing
        writing -= 1

    def check(ctx: RequestContext) -> Response | None:
        nonlocal reading, writing
        assert ctx.info is not None
        if ctx.info.long_running:
            return None
        write = ctx.info.verb not in _READS
        limit, now = (writes, writing) if write else (reads, reading)
        if limit and now >= limit:
            user = ctx.host_user()
            if user is None or SYSTEM_MASTERS not in user.groups:
                return too_many_requests(1)
        if write:
            writing += 1
        else:
            reading += 1
        ctx.finishers.append(written if write else read)
        return None

    return check
