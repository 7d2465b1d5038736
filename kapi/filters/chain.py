"""The filter chain: one flat list, run by one loop (upstream: apiserver ``DefaultBuildHandlerChain``).

A filter is ``filter(ctx) -> None | Response | Awaitable[None | Response]``.  After None the next filter is called; a Response
ends the chain.  A filter returns an awaitable only when it has to wait.  Work after the answer is added to ``ctx.finishers``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Union

from kapi.request.context import RequestContext
from kapi.request.response import Response

MaybeResponse = Union[Response, None]
Filter = Callable[[RequestContext], MaybeResponse | Awaitable[MaybeResponse]]
Handler = Callable[[RequestContext], Response | Awaitable[Response]]


class FilterChain:
    """Runs the filters in order, then the handler.  The caller handles exceptions (``kapi.endpoints.errors``)."""

    def __init__(self, filters: Sequence[Filter], handler: Handler) -> None:
        self.filters = tuple(filters)
        self.handler = handler

    def handle(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        """The answer, or an awaitable of it as soon as one step has to wait."""
        for position, step in enumerate(self.filters, 1):
            answer = step(ctx)
            if answer is None:
                continue
            if isinstance(answer, Response):
                return answer
            return self._resume(ctx, answer, position)
        return self.handler(ctx)

    async def _resume(self, ctx: RequestContext, waiting: Awaitable[MaybeResponse], position: int) -> Response:
        answer = await waiting
        while answer is None and position < len(self.filters):
            step = self.filters[position](ctx)
            position += 1
            answer = step if step is None or isinstance(step, Response) else await step
        if answer is not None:
            return answer
        result = self.handler(ctx)
        return result if isinstance(result, Response) else await result
