"""The deadline of a request: ``?timeout=`` up to ``--request-timeout``, and of a write up to 34 seconds.

Upstream: ``filters/request_deadline.go``, ``handlers/rest.go`` (requestTimeoutUpperBound).
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.filters.chain import Filter
from kapi.machinery import status
from kapi.machinery.golang import parse_duration
from kapi.request.context import RequestContext
from kapi.request.info import WRITES

_MAX_WRITE_SECONDS = 34.0


def request_deadline(maximum: float) -> Filter:
    """Sets ``ctx.deadline`` (reactor seconds).  ``maximum`` is in seconds; a client may ask for less, and 0 means the maximum.

    Raises BadRequest for an invalid timeout.
    """

    def limit(ctx: RequestContext) -> None:
        if ctx.info is not None and ctx.info.long_running:
            return
        timeout, wanted = maximum, ctx.first("timeout")
        if wanted:
            try:
                asked = parse_duration(wanted)
            except ValueError as error:
                raise status.bad_request(f"invalid timeout specified in the request URL - {error}") from None
            if 0 < asked < maximum:
                timeout = asked
        ctx.deadline = ctx.received + timeout

    return limit


def write_deadline(seconds: Callable[[], float]) -> Filter:
    """Lets a write take 34 seconds at most, without the time that it has waited in the filters before this one.

    A request that has waited keeps its deadline for the time until its answer; calls that it makes end at the earlier one.
    """

    def limit(ctx: RequestContext) -> None:
        info = ctx.info
        if info is None or info.verb not in WRITES or not info.is_resource or not ctx.deadline:
            return
        deadline = seconds() + _MAX_WRITE_SECONDS
        if deadline < ctx.deadline:
            ctx.deadline, ctx.late = deadline, status.write_out_of_time

    return limit
