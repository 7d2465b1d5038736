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
    """``reads`` and ``writes`` are the limits; 0 means no limit.

    Members of system:masters are never rejected; above the limit they take no place of others.
    """
    limits, running = {True: reads, False: writes}, {True: 0, False: 0}  # by whether a request reads

    def leave(ctx: RequestContext, code: int) -> None:
        assert ctx.info is not None
        running[ctx.info.verb in _READS] -= 1

    def check(ctx: RequestContext) -> Response | None:
        assert ctx.info is not None
        read = ctx.info.verb in _READS
        if ctx.info.long_running or not limits[read]:
            return None
        if running[read] < limits[read]:
            running[read] += 1
            ctx.finishers.append(leave)
            return None
        user = ctx.host_user()
        return None if user is not None and SYSTEM_MASTERS in user.groups else too_many_requests(1)

    return check
