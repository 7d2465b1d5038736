"""Runs one request from the parsed request line to the last byte: chain, answer, finishers.

A request that never waits goes through without a single Deferred.  A client that goes away cancels a read, and a computation
that nobody has seen anything of; a write runs on, since a torn write would leave others (allocations, quota) with half of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from kapi.endpoints.errors import status_response, to_status
from kapi.endpoints.writer import write
from kapi.filters.chain import FilterChain
from kapi.filters.panic_recovery import recover
from kapi.machinery.checkpoint import LARGE, in_slices
from kapi.machinery.status import StatusError
from kapi.machinery.tracebacks import let_go
from kapi.machinery.uid import new_uid
from kapi.request.context import RequestContext, Stream
from kapi.request.flow import Flow
from kapi.request.http import HTTPRequest
from kapi.request.parse import split_uri
from kapi.request.pending import MAX_PENDING, Pending
from kapi.request.reactor import RequestReactor
from kapi.request.response import Response, leaves_whole
from kapi.scheduling.answer_batch import Answer, AnswerBatch
from kapi.scheduling.deadlines import Deadlines
from kapi.scheduling.deferred_answer import READS, DeferredAnswer
from kapi.scheduling.slices import Slices, Suspended
from kapi.scheduling.thread_scheduler import ThreadScheduler


async def _as_coroutine(answer: Awaitable[Response]) -> Response:
    return await answer


#: a request that is not answered yet, and what it waits for
Running = Coroutine[Deferred[object], object, Response]
Begun = tuple[Running, Any]


class Departing(Protocol):
    """A connection with frames of answers that leave together."""

    def depart(self) -> None:
        """Sends them."""


class _Arrival:
    """A request that came with others, after they had used up their connection's turn."""

    __slots__ = ("_http", "_runner", "flow")

    def __init__(self, runner: RequestRunner, http: HTTPRequest, flow: Flow) -> None:
        self._runner = runner
        self._http = http
        self.flow: Flow | None = flow

    def take_turn(self) -> None:
        if not self._http.gone:
            self._runner.answer(self._http)


class RequestRunner:
    """What a listening site calls for every request; ``reactor`` gives time and threads.

    With ``gather`` the small answers of a turn of the reactor leave together; with ``scheduler`` requests that waited go on in
    turn; with ``slices`` what takes long does not hold up the others.  ``max_pending``: bytes that may wait for all clients
    together, 0 for no limit.  ``streams_body`` says of a request's target whether its body goes to another server, which gets it
    while it comes.
    """

    def __init__(
        self,
        chain: FilterChain,
        reactor: RequestReactor,
        *,
        gather: bool = False,
        scheduler: ThreadScheduler | None = None,
        slices: Slices | None = None,
        max_pending: int = MAX_PENDING,
        streams_body: Callable[[bytes], bool] = lambda uri: False,
    ) -> None:
        self.chain = chain
        self.streams_body = streams_body
        self.reactor = reactor
        self._scheduler = scheduler
        self._slices = slices
        self._deadlines = Deadlines(reactor)
        self._answers = AnswerBatch(reactor, self._leave) if gather else None
        self.pending = Pending(reactor.seconds, max_pending)
        self.watches: set[Stream] = set()  # streams to be ended when the server stops
        #: connections with frames of answers that leave together; None while none do
        self.departing: list[Departing] | None = None

    def serve(self, http: HTTPRequest) -> None:
        """Answers a twisted.web request whose body has been read, in its connection's turn."""
        scheduler = self._scheduler
        if scheduler is not None and scheduler.late():
            scheduler.wait(_Arrival(self, http, scheduler.first(http.transport.flows)))
        else:
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
                outcome = self._on(begun) if slices is None else slices.run(self._on, begun, ctx)
        if isinstance(outcome, Response):  # most answers come from memory: without waiting, and without a timer
            self._write(ctx, outcome)
            return
        if outcome is None:
            return
        coroutine, first = (None, outcome) if isinstance(outcome, Suspended) else outcome
        waiting = DeferredAnswer(ctx, coroutine, first, self._answered, self._deadlines, self._scheduler, self._slices)
        if not waiting.over:
            ctx.http.waiting = waiting

    def _first(self, ctx: RequestContext) -> Begun | Response | None:
        """The first step of a request: answered, or begun; None when nobody waits for its answer."""
        try:
            try:
                ctx.path, ctx.query = split_uri(ctx.http.uri)
            except ValueError:
                return Response(400, b"400 Bad Request", b"text/plain; charset=utf-8", ((b"connection", b"close"),))
            answer = self.chain.handle(ctx)
            if isinstance(answer, Response):
                return answer
            coroutine = answer if inspect.iscoroutine(answer) else _as_coroutine(answer)
            return coroutine, coroutine.send(None)
        except StopIteration as stop:
            response: Response = stop.value
            return response
        except Exception:
            return self._refuse(ctx, Failure())

    def _run(self, ctx: RequestContext) -> Begun | Response | None:
        """The same, until it waits for somebody else."""
        outcome = self._first(ctx)
        if type(outcome) is tuple and outcome[1] is in_slices:
            return self._on((ctx, outcome[0]))
        return outcome

    def _on(self, begun: tuple[RequestContext, Running]) -> Begun | Response | None:
        """Goes on after ``in_slices``."""
        ctx, coroutine = begun
        try:
            awaited: Any = in_slices
            while awaited is in_slices:
                awaited = coroutine.send(None)
            return coroutine, awaited
        except StopIteration as stop:
            response: Response = stop.value
            return response
        except Exception:
            return self._refuse(ctx, Failure())

    @staticmethod
    def _identify(ctx: RequestContext) -> None:
        """The audit id: the client's if it sent one, else a new one; every answer carries it."""
        given = ctx.header("audit-id")
        ctx.audit_id = given if given else new_uid()
        ctx.response_headers.append((b"Audit-Id", ctx.audit_id.encode("utf-8", "replace")))

    def _answered(self, ctx: RequestContext, outcome: Response | Failure | None) -> None:
        ctx.http.waiting = None  # they hold each other
        try:
            response = self._refuse(ctx, outcome) if isinstance(outcome, Failure) else outcome
            if response is not None:
                self._write(ctx, response)
        except Exception:
            self._lost(Failure(), ctx)

    def _refuse(self, ctx: RequestContext, failure: Failure) -> Response | None:
        if failure.check(CancelledError):
            let_go(failure.value)
            self._finish(ctx, 499)
            return None
        error = failure.value
        if not isinstance(error, StatusError):
            assert error is not None
            translated = to_status(error)
            error = translated if translated.code != 500 else recover(ctx, failure)
        response = status_response(ctx, error)
        let_go(failure.value)  # of the body that was refused, among others
        return response

    def _write(self, ctx: RequestContext, response: Response) -> None:
        if self._is_gone(ctx):
            self._finish(ctx, response.status)
            return
        if ctx.audit is not None:
            ctx.audit.answered(response)
        if not leaves_whole(response):
            self._begin(ctx, response)
            return
        ctx.pause()
        if self._answers is None:
            self._leave([(ctx, response)])
        else:
            self._answers.add(ctx, response)

    @staticmethod
    def _is_gone(ctx: RequestContext) -> bool:
        return bool(ctx.http.gone)

    def _leave(self, answers: Sequence[Answer]) -> None:
        """Sends what leaves whole, when all of it is recorded."""
        events = [ctx.audit for ctx, _ in answers if ctx.audit is not None]
        if events:
            events[0].complete(events)
        scheduler = self._scheduler
        measured = scheduler is not None and scheduler.shared()
        departing = self.departing = []
        for ctx, response in answers:
            ctx.resume()
            if measured and ctx.flow is not None:
                before = scheduler.begin(ctx.flow)  # type: ignore[union-attr]
                self._send_safely(ctx, response)
                scheduler.end(before)  # type: ignore[union-attr]
            else:
                self._send_safely(ctx, response)
        self.departing = None
        for connection in departing:
            connection.depart()

    def _send_safely(self, ctx: RequestContext, response: Response) -> None:
        try:
            self._send(ctx, response)
        except Exception:
            self._lost(Failure(), ctx)

    def _send(self, ctx: RequestContext, response: Response) -> None:
        try:
            if not self._is_gone(ctx):
                write(ctx, response)
        finally:
            self._finish(ctx, response.status)

    def _begin(self, ctx: RequestContext, response: Response) -> None:
        """Sends what takes its time."""
        writing = write(ctx, response)
        if writing is None:
            self._finish(ctx, response.status)
            return
        done: Deferred[None] = writing if isinstance(writing, Deferred) else Deferred.fromCoroutine(writing)  # type: ignore[arg-type]
        arguments = (ctx, response.status)
        done.addCallbacks(self._written, self._broken, arguments, errbackArgs=arguments)

    def _written(self, _: object, ctx: RequestContext, code: int) -> None:
        self._finish(ctx, code)

    def _broken(self, failure: Failure, ctx: RequestContext, code: int) -> None:
        self._lost(failure, ctx)
        self._finish(ctx, code)

    def _lost(self, failure: Failure, ctx: RequestContext) -> None:
        if not failure.check(CancelledError):
            recover(ctx, failure)
        let_go(failure.value)

    @staticmethod
    def _finish(ctx: RequestContext, code: int) -> None:
        finishers, ctx.finishers = ctx.finishers, []
        for finisher in reversed(finishers):
            finisher(ctx, code)
