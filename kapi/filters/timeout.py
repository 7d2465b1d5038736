"""Ends a request at its deadline with 504 (upstream: apiserver ``server/filters/timeout.go``).

The chain is a flat list, so this is not one of its filters: whoever runs the chain puts the answer it waits for through
``enforce``.  What was running goes on unseen; a write that has reached the store is not torn apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.response import Response

_TEXT = "request did not complete within the allotted timeout"


def enforce(ctx: RequestContext, answer: Awaitable[Response], clock: IReactorTime) -> Deferred[Response]:
    """The answer, or a failure with Timeout at ``ctx.deadline``; without a deadline the answer alone.

    Cancelling the result cancels what is waited for.
    """
    waiting: Deferred[Response]
    if isinstance(answer, Deferred):
        waiting = answer
    else:
        waiting = Deferred.fromCoroutine(answer if inspect.iscoroutine(answer) else _run(answer))
    if not ctx.deadline:
        return waiting
    result: Deferred[Response] = Deferred(lambda _: waiting.cancel())
    late: Any = None

    def finish(value: Any) -> None:
        if late is not None and late.active():
            late.cancel()
        if not result.called:
            result.callback(value)
        elif isinstance(value, Failure):
            value.cleanFailure()

    def expire() -> None:
        if not result.called:
            result.errback(status.timeout(_TEXT))

    late = clock.callLater(max(0.0, ctx.deadline - clock.seconds()), expire)
    waiting.addBoth(finish)
    return result


async def _run(answer: Awaitable[Response]) -> Response:
    return await answer
