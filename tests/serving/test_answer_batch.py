"""Answers that leave together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.audit.event import AuditEvent
from kapi.audit.policy import METADATA, AuditConfig
from kapi.filters.chain import FilterChain
from kapi.process.turn import Turn
from kapi.request.context import RequestContext
from kapi.request.response import Response, StreamResponse
from kapi.serving.run import MAX_ANSWERS, Answer, AnswerBatch, RequestRunner
from kapi.testing.http import MemoryRequest


class Gathering(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.left: list[list[int]] = []
        self.outgoing = AnswerBatch(Turn(self.clock), self.leave)

    def leave(self, answers: Sequence[Answer]) -> None:
        self.left.append([response.status for _, response in answers])

    def add(self, *codes: int) -> None:
        for code in codes:
            self.outgoing.add(RequestContext(None, "GET", "/", {}), Response(code))

    def test_what_is_ready_in_one_turn_leaves_at_its_end_in_order(self) -> None:
        self.add(200, 404, 201)
        self.assertEqual(self.left, [])
        self.clock.advance(0)
        self.assertEqual(self.left, [[200, 404, 201]])
        self.add(500)
        self.clock.advance(0)
        self.assertEqual(self.left, [[200, 404, 201], [500]])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_many_do_not_wait_for_the_end(self) -> None:
        self.add(*range(200, 200 + MAX_ANSWERS + 3))
        self.assertEqual(self.left, [list(range(200, 200 + MAX_ANSWERS))])
        self.clock.advance(0)
        self.assertEqual(self.left[1:], [[200 + MAX_ANSWERS, 201 + MAX_ANSWERS, 202 + MAX_ANSWERS]])

    def answer(self, channel: object, code: int) -> None:
        self.outgoing.add(RequestContext(SimpleNamespace(channel=channel), "GET", "/", {}), Response(code))

    def test_an_answer_to_whom_the_last_one_went_does_not_wait(self) -> None:
        """A client with one request in flight, of which nothing is gained by waiting for others."""
        one, other = object(), object()
        self.answer(one, 200)
        self.assertEqual(self.left, [])
        self.clock.advance(0)
        self.answer(one, 201)
        self.answer(one, 202)
        self.assertEqual(self.left, [[200], [201], [202]])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.answer(other, 203)
        self.answer(other, 204)
        self.answer(one, 205)
        self.assertEqual(self.left, [[200], [201], [202]], "others wait: it goes along with them")
        self.clock.advance(0)
        self.assertEqual(self.left[3:], [[203, 204, 205]])

    def test_answers_to_nobody_known_wait(self) -> None:
        for code in (200, 201):
            self.answer(None, code)
        self.assertEqual(self.left, [])


class Log:
    """An audit sink."""

    lenient = True

    def __init__(self, out: list[Any]) -> None:
        self.out = out

    def process(self, *records: Any) -> bool:
        events = [json.loads(record.data) for record in records]
        self.out.append([(event["requestURI"], event["stage"]) for event in events])
        return True

    def stop(self) -> None:
        pass


class Request(MemoryRequest):
    """Notes in ``order`` that its answer has left."""

    order: list[Any]

    def getClientAddress(self) -> IPv4Address:
        return IPv4Address("TCP", "192.0.2.7", 1234)

    def write_whole(self, fields: Any, body: bytes) -> None:
        if body == b"broken" or self.gone:
            raise RuntimeError("the transport is broken")
        self.order.append(self.uri.decode())
        super().write_whole(fields, body)


class Runner(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.order: list[Any] = []
        self.finished: list[tuple[str, int]] = []
        self.bodies: dict[str, bytes] = {}
        log = self.log = Log(self.order)

        def audited(ctx: RequestContext) -> None:
            ctx.finishers.append(lambda ctx, code: self.finished.append((ctx.path, code)))
            if ctx.path.startswith("/audited"):
                ctx.audit = AuditEvent(ctx, log, 0.0)
                ctx.audit.begin(AuditConfig(METADATA, "Metadata", frozenset({"RequestReceived"}), False), False)

        def answer(ctx: RequestContext) -> Response:
            if ctx.path == "/stream":
                return StreamResponse(self._stream)
            return Response(200, self.bodies.get(ctx.path, b"{}"))

        self.runner = RequestRunner(FilterChain([audited], answer), self.clock, gather=True)

    async def _stream(self, http: Any) -> None:
        self.order.append("stream")

    def ask(self, uri: str) -> Request:
        request = Request("GET", uri)
        request.order = self.order
        self.runner.serve(request)
        return request

    def test_all_is_recorded_before_anything_leaves(self) -> None:
        requests = [self.ask(uri) for uri in ("/audited/1", "/plain", "/audited/2")]
        self.assertEqual((self.order, self.finished), ([], []))
        self.clock.advance(0)
        done = "ResponseComplete"
        self.assertEqual(
            self.order, [[("/audited/1", done), ("/audited/2", done)], "/audited/1", "/plain", "/audited/2"]
        )
        self.assertEqual([request.finished for request in requests], [True] * 3)
        self.assertEqual(self.finished, [("/audited/1", 200), ("/plain", 200), ("/audited/2", 200)])

    def test_an_answer_leaves_though_the_log_is_broken(self) -> None:
        self.log.process = lambda *records: 1 // 0  # type: ignore[method-assign]
        requests = [self.ask("/audited/1"), self.ask("/plain")]
        self.clock.advance(0)
        self.assertEqual([request.finished for request in requests], [True, True])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_what_streams_does_not_wait(self) -> None:
        self.ask("/plain")
        self.ask("/stream")
        self.assertEqual(self.order, ["stream"])

    def test_an_answer_that_cannot_leave_keeps_no_other_back(self) -> None:
        self.bodies["/bad"] = b"broken"
        self.ask("/bad")
        other = self.ask("/good")
        self.clock.advance(0)
        self.assertTrue(other.finished)
        self.assertEqual(self.finished, [("/bad", 200), ("/good", 200)])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_client_that_has_gone_meanwhile_is_finished_with(self) -> None:
        gone = self.ask("/plain")
        gone.disconnect()
        self.clock.advance(0)
        self.assertEqual(self.finished, [("/plain", 200)])
