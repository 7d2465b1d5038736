"""Sets the time at which the request came in; deadlines and latencies count from it."""

from __future__ import annotations

from collections.abc import Callable

from kapi.filters.chain import Filter
from kapi.request.context import RequestContext


def received_timestamp(seconds: Callable[[], float]) -> Filter:
    """``seconds`` is the reactor's monotonic clock."""

    def note(ctx: RequestContext) -> None:
        ctx.received = seconds()

    return note
