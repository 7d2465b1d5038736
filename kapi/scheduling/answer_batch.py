"""Answers that leave together, at the end of a turn of the reactor.

One client after the other being woken by its answer, and the log written for each, costs as much as the answers do; in
one go the processor's caches stay warm.  An answer waits a millisecond at most for those that come after it; and not at all when
the last one went to the same connection, so that nobody else was answered meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from twisted.internet.interfaces import IReactorTime

from kapi.request.context import RequestContext
from kapi.request.response import Response

Answer = tuple[RequestContext, Response]
MAX_ANSWERS = 16  # answers that leave at once
_MAX_DELAY = 0.001  # seconds from the first answer, when others follow


class AnswerBatch:
    """``leave`` is called with what has come together, and raises nothing."""

    def __init__(self, reactor: IReactorTime, leave: Callable[[Sequence[Answer]], None]) -> None:
        self._reactor = reactor
        self._leave = leave
        self._answers: list[Answer] = []
        self._since = 0.0
        self._scheduled = False
        self._channel: object = None  # that was answered last: a connection of HTTP/1.1, or a stream of its own

    def add(self, ctx: RequestContext, response: Response) -> None:
        """``response`` is ready."""
        answers = self._answers
        channel = getattr(ctx.http, "channel", None)
        if channel is not self._channel:
            self._channel = channel
        elif not answers and channel is not None:
            self._leave(((ctx, response),))
            return
        answers.append((ctx, response))
        if len(answers) == 1:
            self._since = perf_counter()
            if not self._scheduled:
                self._scheduled = True
                self._reactor.callLater(0, self._turn)
        elif len(answers) >= MAX_ANSWERS or perf_counter() - self._since > _MAX_DELAY:
            self._go()

    def _turn(self) -> None:
        self._scheduled = False
        if self._answers:
            self._go()

    def _go(self) -> None:
        answers, self._answers = self._answers, []
        self._leave(answers)
