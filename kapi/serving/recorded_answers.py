"""Answers that are ready, and leave when the audit log has them: when a back end takes its time.

A client that is answered can count on the record of it.  Until then its answer waits, for as long as the request may take at
all; its seats, and the thread, are others'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred

from kapi.process.timers import Deadlines
from kapi.request.context import RequestContext
from kapi.request.pending import HeldBytes
from kapi.request.response import Parts, Response
from kapi.serving.answer_batch import Answer

Leave = Callable[[Sequence[Answer]], None]
Late = Callable[[RequestContext], Response]


class RecordedAnswers:
    """``leave`` is called with them when ``recorded`` fires; with what ``late`` makes of one at that one's deadline."""

    def __init__(
        self, answers: Sequence[Answer], recorded: Deferred[bool], leave: Leave, late: Late, deadlines: Deadlines
    ) -> None:
        self._leave = leave
        self._late = late
        self._waiting = {_Waiting(self, answer, deadlines): None for answer in answers}
        recorded.addBoth(self._recorded)

    def expire(self, waiting: _Waiting) -> None:
        """Its request has no time left."""
        del self._waiting[waiting]
        ctx = waiting.answer[0]
        self._leave([(ctx, self._late(ctx))])

    def _recorded(self, _: object) -> None:
        """Or not, which is counted; only the beginning of a request can be refused for that."""
        waiting, self._waiting = self._waiting, {}
        for one in waiting:
            one.end()
        if waiting:
            self._leave([one.answer for one in waiting])


class _Waiting:
    """One of them; what it holds counts as long as it waits."""

    def __init__(self, group: RecordedAnswers, answer: Answer, deadlines: Deadlines) -> None:
        self.answer = answer
        self._group = group
        self._deadlines = deadlines
        ctx, response = answer
        if ctx.release_seats is not None:
            ctx.resume()
            ctx.release_seats(ctx)
            ctx.pause()
        body = response.body
        self._share = HeldBytes(ctx.pending) if ctx.pending is not None else None
        if self._share is not None:
            self._share.add((body,) if isinstance(body, bytes) else body.held() if isinstance(body, Parts) else body)
        self._number = deadlines.add(self, ctx.deadline) if ctx.deadline else None

    def end(self) -> None:
        if self._number is not None:
            self._deadlines.remove(self, self._number)

    def expire(self) -> None:
        self._group.expire(self)
