"""API priority and fairness: lets requests wait for seats, or rejects them.

Upstream: ``server/filters/priority-and-fairness.go``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime

from kapi.filters.chain import Filter
from kapi.flowcontrol.concurrency import Concurrency
from kapi.flowcontrol.controller import Classification, FlowController
from kapi.flowcontrol.estimator import CacheOf, estimate, watches_of
from kapi.flowcontrol.fair_queues import CANCELLED
from kapi.flowcontrol.queue import Request
from kapi.process.shares import Flow
from kapi.process.turn import Turn
from kapi.request.context import RequestContext
from kapi.request.info import WRITES
from kapi.request.response import Response

_READS = frozenset({"get", "list", "watch"})
_MAX_WAIT_SECONDS = 60.0


def too_many_requests(retry_after: int) -> Response:
    """A 429 in plain text, as upstream."""
    headers = [(b"retry-after", b"%d" % retry_after), (b"x-content-type-options", b"nosniff")]
    body = b"Too many requests, please try again later.\n"
    return Response(429, body, b"text/plain; charset=utf-8", headers)


def _time_to_wait(ctx: RequestContext, default: float, clock: IReactorTime) -> float:
    """Seconds that a request may wait in a queue: a quarter of its time until the deadline."""
    if not ctx.deadline:
        return min(default, _MAX_WAIT_SECONDS)
    return max(0.0, min((ctx.deadline - (ctx.received or clock.seconds())) / 4, _MAX_WAIT_SECONDS))


def _announce(ctx: RequestContext, flow: Flow, turn: Turn) -> bool:
    """Sets the flow of the request and of its connection.  Returns whether other work should go first."""
    ctx.flow = flow
    transport: Any = getattr(ctx.http, "transport", None)
    if getattr(transport, "flow", flow) is not flow:
        transport.flow = flow
    return turn.switch(flow)


def priority_and_fairness(
    controller: FlowController,
    cache_of: CacheOf,
    reactor: IReactorTime,
    *,
    default_wait: float = 15.0,
    concurrency: Concurrency | None = None,
) -> Filter:
    """Waits for a seat of the request's priority level, or answers 429.

    ``default_wait`` is the most seconds in a queue for requests without a deadline.  ``concurrency`` counts the waiting requests,
    and the watches that are not under way.
    """
    counted = concurrency or Concurrency()
    reads = counted.executing["readOnly"]
    meter, turn = controller.meter, controller.turn

    def run(ctx: RequestContext, request: Request) -> None:
        ctx.seats = request
        ctx.finishers.append(finish)
        ctx.release_seats = finish
        if ctx.info is not None and ctx.info.long_running:  # a watch, which counts until it is under way
            reads.change(1, reactor.seconds())

    def finish(ctx: RequestContext, code: int = 0) -> None:
        request = ctx.seats
        if isinstance(request, Request):
            ctx.seats = None
            if ctx.info is not None and ctx.info.long_running:
                reads.change(-1, reactor.seconds())
            request.queues.finish(request, ctx.worked())

    def reject(chosen: Classification, why: str) -> Response:
        level = chosen.level
        meter.rejected(level.name, chosen.schema.name, why)
        answer = too_many_requests(level.retry_after.seconds)
        level.retry_after.dropped(reactor.seconds())
        return answer

    async def wait(
        ctx: RequestContext, chosen: Classification, request: Request, waiting: Deferred[str]
    ) -> Response | None:
        began = reactor.seconds()
        assert ctx.info is not None
        kind = "readOnly" if ctx.info.verb in _READS else "mutating"
        arrived = not ctx.info.long_running
        counted.wait(kind, began, arrived)
        try:
            why = await waiting
        except CancelledError:
            meter.rejected(chosen.level.name, chosen.schema.name, CANCELLED)
            raise
        finally:
            counted.resume(kind, reactor.seconds(), arrived)
        ctx.add_wait("apf-queue-wait", reactor.seconds() - began)
        if why:
            return reject(chosen, why)
        run(ctx, request)
        return None

    def check(ctx: RequestContext) -> Response | None | Awaitable[Response | None]:
        info, user = ctx.info, ctx.host_user()
        assert info is not None and user is not None
        if info.long_running and info.verb != "watch":
            return None
        chosen = controller.classify(info, user, ctx.cluster)
        level = chosen.level
        ctx.response_headers += chosen.headers
        yields = turn is not None and _announce(ctx, chosen.flow, turn)
        watches = 0
        if info.is_resource and info.verb in WRITES:
            watches = watches_of(info, cache_of)
            meter.watched(level.name, chosen.schema.name, watches)
        work = estimate(ctx, cache_of, level.max_seats, watches)
        request = controller.request(chosen, work, info, user)
        outcome = level.queues.admit(request, 0.0 if level.exempt else _time_to_wait(ctx, default_wait, reactor))
        if outcome == "":
            run(ctx, request)
            return turn.next(chosen.flow) if yields else None  # type: ignore[union-attr]
        if isinstance(outcome, Deferred):
            return wait(ctx, chosen, request, outcome)
        return reject(chosen, outcome)

    return check
