"""Answers that leave together, at the end of a turn of the reactor.

To wake each client separately, and to write the audit log for each answer, costs as much as the answers themselves.  Done
together, the processor's caches stay warm.  An answer waits at most one millisecond for later ones.  It does not wait at all
when the last answer went to the same connection: then no other client was answered in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from twisted.internet.interfaces import IReactorTime

from kapi.request.context import RequestContext
from kapi.request.response import Response

Answer = tuple[RequestContext, Response]
MAX_ANSWERS = 16  # answers that leave at once
_MAX_DELAY_SECONDS = 0.001  # seconds from the first answer, when others follow


class AnswerBatch:
    """Collects answers and calls ``send`` with up to ``MAX_ANSWERS`` of them; ``send`` raises nothing."""

    def __init__(self, reactor: IReactorTime, send: Callable[[Sequence[Answer]], None]) -> None:
        self._reactor = reactor
        self._send = send
        self._answers: list[Answer] = []
        self._since = 0.0
        self._scheduled = False
        self._channel: object = None  # where the last answer went: an HTTP/1.1 connection or an HTTP/2 stream

    def add(self, ctx: RequestContext, response: Response) -> None:
        """Queues a finished ``response``, or sends it now (see above)."""
        answers = self._answers
        channel = getattr(ctx.http, "channel", None)
        if channel is not self._channel:
            self._channel = channel
        elif not answers and channel is not None:
            self._send(((ctx, response),))
            return
        answers.append((ctx, response))
        if len(answers) == 1:
            self._since = perf_counter()
            if not self._scheduled:
                self._scheduled = True
                self._reactor.callLater(0, self._end_of_turn)
        elif len(answers) >= MAX_ANSWERS or perf_counter() - self._since > _MAX_DELAY_SECONDS:
            self._flush()

    def _end_of_turn(self) -> None:
        self._scheduled = False
        if self._answers:
            self._flush()

    def _flush(self) -> None:
        answers, self._answers = self._answers, []
        self._send(answers)
