"""Answers that leave together, at the end of a turn of the reactor.

To wake each client separately, and to write the audit log for each answer, costs as much as the answers themselves.  Done
together, the processor's caches stay warm.  An answer waits for later ones until the end of the turn.  It does not wait at all
when the last answer went to the same connection: then no other client was answered in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kapi.process.turn import Turn
from kapi.request.context import RequestContext
from kapi.request.response import Response

Answer = tuple[RequestContext, Response]
MAX_ANSWERS = 16  # answers that leave at once


class AnswerBatch:
    """Collects answers and calls ``send`` with up to ``MAX_ANSWERS`` of them; ``send`` raises nothing."""

    def __init__(self, turn: Turn, send: Callable[[Sequence[Answer]], None]) -> None:
        self._turn = turn
        self._send = send
        self._answers: list[Answer] = []
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
            self._turn.at_end(self._flush)
        elif len(answers) >= MAX_ANSWERS:
            self._flush()

    def _flush(self) -> None:
        answers, self._answers = self._answers, []
        if answers:
            self._send(answers)
