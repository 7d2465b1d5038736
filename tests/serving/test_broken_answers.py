"""Answers in several parts that cannot be made: the request ends, its client waits no longer, and its seats are free."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock, patch

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints import writer
from kapi.endpoints.writer import MIN_GZIP_BYTES
from kapi.filters.chain import FilterChain
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.response import Response, StreamResponse
from kapi.serving.run import RequestRunner
from kapi.testing.http import MemoryRequest


class Broken(Exception):
    pass


class Answers(SynchronousTestCase):
    def serve(self, response: Response, *, later: bool = False, audit: Any = None) -> MemoryRequest:
        self.ended: list[int] = []
        ready: Deferred[None] = Deferred()

        async def wait(ctx: RequestContext) -> Response:
            ctx.finishers.append(lambda ctx, code: self.ended.append(code))
            ctx.audit = audit
            if later:
                await ready
            return response

        runner = RequestRunner(FilterChain([], wait), Clock())  # type: ignore[arg-type]
        http = MemoryRequest("GET", "/", {"accept-encoding": "gzip"})
        runner.serve(http)  # type: ignore[arg-type]
        ready.callback(None)
        return http

    def check(self, run: Callable[[HTTPRequest], Awaitable[None]]) -> None:
        for later in (False, True):
            http = self.serve(StreamResponse(run), later=later)
            self.assertEqual((self.ended, http.gone, http.finished), ([200], True, False))
            self.assertEqual(len(self.flushLoggedErrors(Broken)), 1)

    def test_one_that_cannot_begin(self) -> None:
        def run(http: HTTPRequest) -> Awaitable[None]:
            raise Broken

        self.check(run)

    def test_one_that_breaks_in_the_middle(self) -> None:
        def run(http: HTTPRequest) -> Deferred[None]:
            http.write(b"one part")
            return fail(Broken())

        self.check(run)

    def test_one_in_one_part(self) -> None:
        for later in (False, True):
            with patch.object(MemoryRequest, "write_whole", side_effect=Broken):
                http = self.serve(Response(200, b"whole"), later=later)
            self.assertEqual((self.ended, http.gone, http.finished), ([200], True, False))
            self.assertEqual(len(self.flushLoggedErrors(Broken)), 1)

    def test_one_that_cannot_be_recorded(self) -> None:
        audit: Any = Mock(answered=Mock(side_effect=Broken))
        for later in (False, True):
            http = self.serve(Response(200, b"whole"), later=later, audit=audit)
            self.assertEqual((self.ended, http.gone, http.finished), ([200], True, False))
            self.assertEqual(len(self.flushLoggedErrors(Broken)), 1)

    def test_one_that_is_not_sent_gives_back_what_it_holds(self) -> None:
        """A connection to another server, which nobody else would close."""
        dropped: list[bool] = []

        def run(http: HTTPRequest) -> Awaitable[None]:
            raise AssertionError("it must not begin")

        def answer() -> Response:
            return StreamResponse(run, unused=lambda: dropped.append(True))

        audit: Any = Mock(answered=Mock(side_effect=Broken))
        self.serve(answer(), audit=audit)
        self.assertEqual((len(dropped), len(self.flushLoggedErrors(Broken))), (1, 1))
        for leaves in (True, False):
            dropped.clear()
            clock, ready = Clock(), Deferred[None]()

            async def handle(ctx: RequestContext, ready: Deferred[None] = ready) -> Response:
                ctx.deadline = 5.0
                await ready
                return answer()

            runner = RequestRunner(FilterChain([], handle), clock)  # type: ignore[arg-type]
            http = MemoryRequest("GET", "/")
            runner.serve(http)  # type: ignore[arg-type]
            if leaves:
                http._disconnected = True
            else:
                clock.advance(6)
                self.assertEqual(http.code, 504)
            ready.callback(None)
            self.assertEqual(len(dropped), 1, leaves)

    def test_a_request_at_its_deadline_is_answered_without_a_media_type(self) -> None:
        """As Go's server names JSON that a handler writes without saying so: clients find no Status in it."""
        clock, ready = Clock(), Deferred[None]()

        async def handle(ctx: RequestContext) -> Response:
            ctx.deadline = 5.0
            await ready
            return Response(200)

        http = MemoryRequest("GET", "/", {"accept": "application/yaml"})
        RequestRunner(FilterChain([], handle), clock).serve(http)  # type: ignore[arg-type]
        clock.advance(6)
        self.assertEqual(http.code, 504)
        self.assertEqual(http.responseHeaders.getRawHeaders("content-type"), ["text/plain; charset=utf-8"])
        self.assertEqual(
            json.loads(http.written),
            {
                "metadata": {},
                "status": "Failure",
                "message": "Timeout: request did not complete within the allotted timeout",
                "reason": "Timeout",
                "details": {},
                "code": 504,
            },
        )
        ready.callback(None)

    def test_what_ends_with_a_request_ends_though_one_part_of_it_fails(self) -> None:
        """As its seats, when its audit event cannot be made."""

        def fails(ctx: RequestContext, code: int) -> None:
            raise Broken

        ended: list[int] = []

        def handle(ctx: RequestContext) -> Response:
            ctx.finishers += [lambda ctx, code: ended.append(code), fails]
            return Response(200, b"whole")

        clock = Clock()
        runner = RequestRunner(FilterChain([], handle), clock, gather=True)  # type: ignore[arg-type]
        requests = [MemoryRequest("GET", "/") for _ in range(3)]
        for http in requests:
            runner.serve(http)  # type: ignore[arg-type]
        clock.advance(0)
        self.assertEqual(ended, [200] * 3)
        self.assertEqual([(http.written, http.finished, http.gone) for http in requests], [(b"whole", True, False)] * 3)
        self.assertEqual(len(self.flushLoggedErrors(Broken)), 3)

    def test_one_that_fails_behind_its_end_is_complete(self) -> None:
        """The connection is the next request's by then."""

        def run(http: HTTPRequest) -> Deferred[None]:
            http.finish()
            return fail(Broken())

        http = self.serve(StreamResponse(run))
        self.assertEqual((self.ended, http.gone, http.finished), ([200], False, True))
        self.flushLoggedErrors(Broken)

    def test_one_that_cannot_be_compressed_is_sent_as_it_is(self) -> None:
        body = [b"x" * MIN_GZIP_BYTES, b"y"]
        with patch.object(writer, "compressed", side_effect=Broken):
            http = self.serve(Response(200, body))
        self.assertEqual((self.ended, http.finished, http.written), ([200], True, b"".join(body)))
        headers = [http.header(name) for name in ("content-encoding", "content-length", "vary")]
        self.assertEqual(headers, ["", str(MIN_GZIP_BYTES + 1), "Accept-Encoding"])
        self.flushLoggedErrors(Broken)
