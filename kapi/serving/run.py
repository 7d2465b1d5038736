"""Runs one request from the parsed request line to the last byte: chain, answer, finishers.

A request that never waits needs no Deferred.  When the client leaves, a read is cancelled, and so is a computation without
visible effects.  A write continues: when ended in the middle it would leave related state (allocations, quota) inconsistent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.endpoints.errors import status_response, to_status
from kapi.endpoints.writer import write
from kapi.filters.chain import FilterChain
from kapi.filters.panic_recovery import recover
from kapi.machinery.checkpoint import LARGE, in_slices
from kapi.machinery.freeing import drop_tracebacks
from kapi.machinery.status import StatusError
from kapi.machinery.uid import new_uid
from kapi.process.driver import Running, advance, failure_of
from kapi.process.reactor import RequestReactor
from kapi.process.shares import Flow
from kapi.process.slices import Slices, Suspended
from kapi.process.timers import Deadlines
from kapi.process.turn import Turn
from kapi.request.context import RequestContext, Stream
from kapi.request.http import HTTPRequest
from kapi.request.parse import split_uri
from kapi.request.pending import COUNTED_SHARE, MAX_PENDING_BYTES, HeldBytes, Pending
from kapi.request.response import CLOSE, Parts, Response, leaves_whole

Answer = tuple[RequestContext, Response]
MAX_ANSWERS = 16  # answers that are sent at once


class AnswerBatch:
    """Collects the answers of one turn of the reactor, and sends them together at its end.

    To wake each client separately, and to write the audit log for each answer, costs as much as the answers themselves; in a
    batch it costs less, since the processor's caches stay warm.  An answer is sent at once when the last answer went to the same
    connection: then no other client was answered in between.

    Calls ``send`` with up to ``MAX_ANSWERS`` answers; ``send`` raises nothing.
    """

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


Leave = Callable[[Sequence[Answer]], None]
Late = Callable[[RequestContext], Response]


class RecordedAnswers:
    """Holds answers until the audit log is written: when a client gets its answer, the record exists.

    ``leave`` is called with the answers when ``recorded`` fires, or at the deadline of an answer with the result of ``late``.
    Meanwhile the seats of its request, and the thread, are free for other requests.
    """

    def __init__(
        self, answers: Sequence[Answer], recorded: Deferred[bool], leave: Leave, late: Late, deadlines: Deadlines
    ) -> None:
        self._leave = leave
        self._late = late
        self._waiting = {_Waiting(self, answer, deadlines): None for answer in answers}
        recorded.addBoth(self._recorded)

    def expire(self, waiting: _Waiting) -> None:
        """Called at the deadline of a request."""
        del self._waiting[waiting]
        ctx = waiting.answer[0]
        self._leave([(ctx, self._late(ctx))])

    def _recorded(self, _: object) -> None:
        """Called when the audit log is written, or has failed: that is counted, and refuses only the beginning of a request."""
        waiting, self._waiting = self._waiting, {}
        for one in waiting:
            one.end()
        if waiting:
            self._leave([one.answer for one in waiting])


class _Waiting:
    """An answer of RecordedAnswers; its bytes are counted while it waits."""

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


READS = frozenset(["GET", "HEAD", "OPTIONS"])
#: called once with the answer or the failure
Answered = Callable[[RequestContext, "Response | Failure | None"], None]


class DeferredAnswer:
    """Runs a coroutine that could not answer at once; at its deadline it ends with 504 (upstream: ``server/filters/timeout.go``).

    Every write goes this way, so it drives the coroutine itself, which is cheaper than ``Deferred.fromCoroutine``.  It resumes
    the coroutine when the awaited Deferred fires, measures the time of its work, and reports the outcome once.

    ``coroutine`` has stopped at ``first``, a Deferred.  If ``first`` is Suspended, its first step is still under way and
    ``coroutine`` is None.  At the deadline ``answered`` gets a Timeout.  A computation without visible effects then ends, and so
    does waiting for another server.  Anything else continues in the background, so that a write that has reached the store is
    completed.  With ``turn`` the coroutine resumes when it is the turn of its flow; with ``slices`` it holds the reactor for
    one slice at a time.
    """

    __slots__ = (
        "_answered", "_awaited", "_coroutine", "_ctx", "_deadlines", "_failure", "_deadline_slot", "_slices", "_turn",
        "computing", "flow",
    )  # fmt: skip

    def __init__(
        self,
        ctx: RequestContext,
        coroutine: Coroutine[Deferred[object], object, Response] | None,
        first: Deferred[object] | Suspended,
        answered: Answered,
        deadlines: Deadlines,
        turn: Turn | None = None,
        slices: Slices | None = None,
    ) -> None:
        self._failure: Failure | None = None
        self.flow: Flow | None = None  # known once the request is classified
        self._turn = turn
        self._slices = slices
        self._ctx = ctx
        self._coroutine = coroutine
        self._answered: Answered | None = answered
        self._deadlines: Deadlines | None = None
        self.computing = False  # suspended between two slices
        if ctx.deadline:
            self._deadlines = deadlines
            self._deadline_slot = deadlines.add(self, ctx.deadline)
        if isinstance(first, Suspended):
            self._compute(first)
        else:
            self._wait(first)

    @property
    def over(self) -> bool:
        """Whether the outcome was already reported."""
        return self._answered is None

    def client_gone(self) -> None:
        """Ends a read, a request passed on to another server, and a computation without visible effects.

        The rest of a write continues.  The other server decides itself what to do when its client leaves.
        """
        if self._ctx.method in READS or self._ctx.passed_on or self.computing:
            self.cancel()

    def cancel(self) -> None:
        """Cancels the awaited Deferred, or ends the computation at its next checkpoint."""
        if self.computing:
            self._ctx.interrupt = CancelledError()
        else:
            self._awaited.cancel()

    def _wait(self, awaited: Deferred[object]) -> None:
        self._ctx.pause()
        self._awaited = awaited
        awaited.addBoth(self._continue)

    def _continue(self, result: object) -> object:
        """The awaited Deferred has fired."""
        failure = self._failure = failure_of(result)
        flow = self._ctx.flow
        if flow is None or self._turn is None or flow is self._turn.alone:
            self._resume()
        else:
            self._turn.run(self._resume, flow)
        return result if failure is None else None

    def _resume(self) -> None:
        """Resumes the coroutine now."""
        ctx, slices = self._ctx, self._slices
        ctx.resume()
        failure, self._failure = self._failure, None
        # after the commit of a small write only its answer has to be made, which is too short for a slice
        if slices is None or (ctx.committed and not ctx.engaged):
            self._handle(self._step(failure))
            return
        outcome = slices.run(self._step, failure, ctx)
        if isinstance(outcome, Suspended):
            self._compute(outcome)
        else:
            self._handle(outcome)

    def _step(self, failure: Failure | None) -> Response | Failure | Deferred[object]:
        assert self._coroutine is not None
        return advance(self._coroutine, failure)

    def _handle(self, outcome: Any) -> None:
        if isinstance(outcome, Deferred):
            self._wait(outcome)
        elif type(outcome) is tuple:
            self._coroutine, awaited = outcome
            self._wait(awaited)
        else:
            self._answer(outcome)

    # -- suspended

    def _compute(self, suspended: Suspended) -> None:
        assert self._slices is not None
        self._ctx.pause()
        self.computing = True
        self.flow = self._ctx.flow
        self._slices.wait(suspended, self)

    def resumed(self) -> None:
        """The next slice begins."""
        self._ctx.resume()

    def suspended(self) -> None:
        """A slice is used up."""
        self._ctx.pause()

    def finished(self, result: object) -> None:
        """The computation has ended."""
        self.computing = False
        self._handle(result)

    def expire(self) -> None:
        """The deadline has come."""
        self._deadlines = None
        self._ctx.interrupt = late = self._ctx.late()
        self._answer(Failure(late))
        if self._ctx.passed_on and not self.computing:
            self._awaited.cancel()

    def _answer(self, outcome: Response | Failure | None) -> None:
        answered, self._answered = self._answered, None
        if answered is None:  # the outcome was reported already
            if isinstance(outcome, Response):
                outcome.drop()
            return
        if self._deadlines is not None:
            self._deadlines.remove(self, self._deadline_slot)
            self._deadlines = None
        answered(self._ctx, outcome)


log = Logger()


async def _as_coroutine(answer: Awaitable[Response]) -> Response:
    return await answer


#: a request that is not answered yet, with what it waits for
Begun = tuple[Running[Response], Any]


class Unflushed(Protocol):
    """A connection with collected frames that are not written yet."""

    def flush_safely(self) -> None:
        """Writes them.  Raises nothing."""


class RequestRunner:
    """Answers the requests of a listening port.

    With ``gather`` small answers of one turn of the reactor are sent together.  With ``slices`` long computations do not block
    other requests; ``turn`` is shared with all other work.  ``max_pending`` is the limit of waiting bytes for all clients
    together, 0 for no limit.  ``streams_body(uri)``: whether a request's body is forwarded to another server while it is
    received.  ``compresses``: large answers are compressed for clients that accept it.
    """

    def __init__(
        self,
        chain: FilterChain,
        reactor: RequestReactor,
        *,
        gather: bool = False,
        slices: Slices | None = None,
        max_pending: int = MAX_PENDING_BYTES,
        streams_body: Callable[[bytes], bool] = lambda uri: False,
        compresses: bool = True,
    ) -> None:
        self.chain = chain
        self._compresses = compresses
        self.streams_body = streams_body
        self.reactor = reactor
        self._slices = slices
        self.turn = Turn(reactor) if slices is None else slices.turn
        self._deadlines = Deadlines(reactor)
        self._answers = AnswerBatch(self.turn, self._send_together) if gather else None
        self.pending = Pending(reactor.seconds, int(max_pending * COUNTED_SHARE))
        self.watches: set[Stream] = set()  # streams to be ended when the server stops
        #: connections whose frames are flushed after the current batch of answers; None outside of a batch
        self.unflushed: list[Unflushed] | None = None

    def serve(self, http: HTTPRequest) -> None:
        """Answers a twisted.web request whose body has been read: now, or in a later turn when the flow's turn is used up."""
        if self.turn.alone is None and self.turn.over():
            self.turn.wait(partial(self._answer_late, http), getattr(http.transport, "flow", None))
        else:
            self.answer(http)

    def _answer_late(self, http: HTTPRequest) -> None:
        if not http.gone:
            self.answer(http)

    def answer(self, http: HTTPRequest) -> None:
        ctx = RequestContext(http, http.method.decode("latin-1"), "", {})
        ctx.reactor = self.reactor
        ctx.watches = self.watches
        ctx.pending = self.pending
        self._identify(ctx)
        slices = self._slices
        outcome: Any
        if slices is not None and (ctx.method not in READS or len(http.uri) > LARGE):
            ctx.engaged = len(http.uri) > LARGE
            outcome = slices.run(self._run, ctx, ctx)
        else:
            outcome = self._first(ctx)
            if type(outcome) is tuple and outcome[1] is in_slices:
                begun = ctx, outcome[0]
                ctx.engaged = True
                outcome = self._continue(begun) if slices is None else slices.run(self._continue, begun, ctx)
        if isinstance(outcome, Response):  # most answers come from memory, and need no timer
            self._write(ctx, outcome)
            return
        if outcome is None:
            return
        coroutine, first = (None, outcome) if isinstance(outcome, Suspended) else outcome
        waiting = DeferredAnswer(ctx, coroutine, first, self._answered, self._deadlines, self.turn, self._slices)
        if not waiting.over:
            ctx.http.waiting = waiting

    def _first(self, ctx: RequestContext) -> Begun | Response | None:
        """The first step of a request: the answer, or a coroutine that waits; None when the client has left."""
        try:
            try:
                ctx.path, ctx.query = split_uri(ctx.http.uri)
            except ValueError:
                return Response(400, b"400 Bad Request", b"text/plain; charset=utf-8", (CLOSE,))
            answer = self.chain.handle(ctx)
            if isinstance(answer, Response):
                return answer
            coroutine = answer if isinstance(answer, CoroutineType) else _as_coroutine(answer)
            return coroutine, coroutine.send(None)
        except StopIteration as stop:
            response: Response = stop.value
            return response
        except Exception:
            return self._refuse(ctx, Failure())

    def _run(self, ctx: RequestContext) -> Begun | Response | None:
        """Runs a request until it is answered or has to wait."""
        outcome = self._first(ctx)
        if type(outcome) is tuple and outcome[1] is in_slices:
            return self._continue((ctx, outcome[0]))
        return outcome

    def _continue(self, begun: tuple[RequestContext, Running[Response]]) -> Begun | Response | None:
        """Continues a request that has asked for slices (``in_slices``)."""
        ctx, coroutine = begun
        outcome = advance(coroutine)
        if isinstance(outcome, Failure):
            return self._refuse(ctx, outcome)
        return (coroutine, outcome) if isinstance(outcome, Deferred) else outcome

    @staticmethod
    def _identify(ctx: RequestContext) -> None:
        """Sets the audit id: the client's, or a new one; every answer has it as a header."""
        given = ctx.header("audit-id")
        ctx.audit_id = given if given else new_uid()
        ctx.response_headers.append((b"Audit-Id", ctx.audit_id.encode("utf-8", "replace")))

    def _answered(self, ctx: RequestContext, outcome: Response | Failure | None) -> None:
        ctx.http.waiting = None  # breaks a reference cycle
        try:
            response = self._refuse(ctx, outcome) if isinstance(outcome, Failure) else outcome
            if response is not None:
                self._write(ctx, response)
        except Exception:
            self._broken(Failure(), ctx, 500)

    def _refuse(self, ctx: RequestContext, failure: Failure) -> Response | None:
        if failure.check(CancelledError):
            drop_tracebacks(failure.value)
            self._finish(ctx, 499)
            return None
        error = failure.value
        if not isinstance(error, StatusError):
            assert error is not None
            translated = to_status(error)
            error = translated if translated.code != 500 else recover(ctx, failure)
        response = status_response(ctx, error)
        drop_tracebacks(failure.value)  # they refer to the refused body, among others
        return response

    def _write(self, ctx: RequestContext, response: Response) -> None:
        if ctx.http.gone:
            response.drop()
            self._finish(ctx, response.status)
            return
        try:
            recorded = ctx.audit.answered(response) if ctx.audit is not None else True
        except Exception:
            response.drop()
            self._broken(Failure(), ctx, response.status)
            return
        if not leaves_whole(response):
            if isinstance(recorded, Deferred) and type(response) is Response:
                ctx.pause()
                RecordedAnswers([(ctx, response)], recorded, self._go_on, self._late, self._deadlines)
            else:
                self._begin(ctx, response)
            return
        ctx.pause()
        if self._answers is None:
            self._send_together([(ctx, response)])
        else:
            self._answers.add(ctx, response)

    def _send_together(self, answers: Sequence[Answer]) -> None:
        """Records complete answers in the audit log, then sends them."""
        for ctx, _ in answers:
            if ctx.audit is not None:
                answers = self._recorded(answers)
                break
        self._send_all(answers)

    def _recorded(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        """Records complete answers; returns those that need not wait for it."""
        events = [ctx.audit for ctx, _ in answers if ctx.audit is not None]
        recorded = events[0].complete(events)
        if not isinstance(recorded, Deferred):
            return answers
        waiting = [(ctx, response) for ctx, response in answers if ctx.audit is not None]
        RecordedAnswers(waiting, recorded, self._send_all, self._late, self._deadlines)
        return [(ctx, response) for ctx, response in answers if ctx.audit is None]

    @staticmethod
    def _late(ctx: RequestContext) -> Response:
        return status_response(ctx, ctx.late())

    def _send_all(self, answers: Sequence[Answer]) -> None:
        unflushed = self.unflushed = []
        for ctx, response in answers:
            ctx.resume()
            self._send_safely(ctx, response)
        self.unflushed = None
        for connection in unflushed:
            connection.flush_safely()

    def _send_safely(self, ctx: RequestContext, response: Response) -> None:
        try:
            if not ctx.http.gone:
                write(ctx, response, self._compresses)
        except Exception:
            self._broken(Failure(), ctx, response.status)
        else:
            self._finish(ctx, response.status)

    def _go_on(self, answers: Sequence[Answer]) -> None:
        """Sends an answer that has several parts, now that its request is recorded; or an error in its place."""
        ((ctx, response),) = answers
        if leaves_whole(response) or ctx.http.gone:
            self._send_all(answers)
            return
        ctx.resume()
        self._begin(ctx, response)

    def _begin(self, ctx: RequestContext, response: Response) -> None:
        """Begins an answer that is sent in several parts.  Raises nothing."""
        try:
            writing = write(ctx, response, self._compresses)
        except Exception:
            self._broken(Failure(), ctx, response.status)
            return
        if writing is None:
            self._finish(ctx, response.status)
            return
        done: Deferred[None] = writing if isinstance(writing, Deferred) else Deferred.fromCoroutine(writing)  # type: ignore[arg-type]
        arguments = (ctx, response.status)
        done.addCallbacks(self._written, self._broken, arguments, errbackArgs=arguments)

    def _written(self, _: object, ctx: RequestContext, code: int) -> None:
        self._finish(ctx, code)

    def _broken(self, failure: Failure, ctx: RequestContext, code: int) -> None:
        self._log_lost(failure, ctx)
        if not (ctx.http.gone or ctx.http.finished):
            ctx.http.abort()  # the client must neither wait for the rest nor take it for complete
        self._finish(ctx, code)

    def _log_lost(self, failure: Failure, ctx: RequestContext) -> None:
        if not failure.check(CancelledError):
            recover(ctx, failure)
        drop_tracebacks(failure.value)

    @staticmethod
    def _finish(ctx: RequestContext, code: int) -> None:
        finishers, ctx.finishers = ctx.finishers, []
        for finisher in reversed(finishers):
            try:
                finisher(ctx, code)
            except Exception:  # the others free what the request holds
                log.failure("a part of the end of {method} {path} failed", method=ctx.method, path=ctx.path)
