"""kapi below a Site of another application: a client that leaves."""

from __future__ import annotations

import io
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.test.requesthelper import DummyRequest

from kapi.filters.chain import FilterChain
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.generic import NotFound
from kapi.serving.mounted import MountedResource
from kapi.serving.run import RequestRunner
from kapi.serving.site import Site


class Leaving(SynchronousTestCase):
    def ask(self, method: bytes) -> tuple[Any, Deferred[None]]:
        waiting: Deferred[None] = Deferred(lambda cancelled: self.cancelled.append(method))
        self.cancelled: list[bytes] = []

        async def handle(ctx: RequestContext) -> Response:
            await waiting
            return Response(200, b"answer")

        request: Any = DummyRequest([])
        request.method, request.uri, request.clientproto = method, b"/", b"HTTP/1.1"
        request.transport, request.content = None, io.BytesIO()
        site = Site(NotFound(), Clock())
        site.run_by(RequestRunner(FilterChain([], handle), Clock()))
        MountedResource(site.requestFactory).render(request)
        return request, waiting

    def test_a_read_that_waits_is_given_up(self) -> None:
        request, _ = self.ask(b"GET")
        request.processingFailed(Failure(ConnectionLost()))
        self.assertEqual(self.cancelled, [b"GET"])

    def test_a_write_goes_on(self) -> None:
        request, waiting = self.ask(b"POST")
        request.processingFailed(Failure(ConnectionLost()))
        self.assertEqual(self.cancelled, [])
        waiting.callback(None)
        self.assertEqual(request.written, [])
