"""The deadline of a request: ``?timeout=`` up to ``--request-timeout`` (upstream: ``filters/request_deadline.go``)."""

from __future__ import annotations

from kapi.filters.chain import Filter
from kapi.machinery import status
from kapi.machinery.golang import parse_duration
from kapi.request.context import RequestContext


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
