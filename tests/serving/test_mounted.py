"""kapi below a Site of another application: a client that leaves."""

from __future__ import annotations

import io
from typing import Any
from unittest.mock import Mock

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.test.requesthelper import DummyRequest

from kapi.filters.chain import FilterChain
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving import mounted
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

    def test_what_is_asked_is_below_the_place(self) -> None:
        """However the client names it."""
        seen: list[bytes] = []

        def make(channel: Any) -> Any:
            return Mock(requestReceived=lambda method, target, version: seen.append(target))

        for prepath, uri, below in (
            ([], b"/api/v1?a=/b", b"/api/v1?a=/b"),
            ([b"kube"], b"/kube/api/v1?a=/b?c", b"/api/v1?a=/b?c"),
            ([b"a", b"b"], b"/a/b/c%2Fd/e", b"/c%2Fd/e"),
            ([b"kube"], b"/kube", b"/"),
            ([b"kube"], b"/kube/", b"/"),
            ([b"kube"], b"http://host/kube/version", b"/version"),
            ([b"kube"], b"/kube/\xe4", b"/%E4"),
        ):
            request: Any = DummyRequest([])
            request.prepath, request.uri, request.content, request.transport = prepath, uri, io.BytesIO(), None
            MountedResource(make).render(request)
            self.assertEqual(seen.pop(), below)

    def test_what_is_no_target_is_refused(self) -> None:
        for uri in (b"http:///a", b"*", b"a", b"/a b"):
            request: Any = DummyRequest([])
            request.uri = uri
            MountedResource(lambda channel: self.fail("made")).render(request)
            self.assertEqual((request.responseCode, request.finished), (400, 1))

    def test_a_body_is_passed_on_up_to_the_largest(self) -> None:
        self.patch(mounted, "MAX_BODY", 5)
        for size, body in ((0, b""), (4, b"xxxx"), (5, b"xxxxx"), (6, b"")):
            chunks: list[bytes] = []
            made = Mock(body_size=0, handleContentChunk=chunks.append)
            request: Any = DummyRequest([])
            request.uri, request.content, request.transport = b"/", io.BytesIO(b"x" * size), None
            MountedResource(lambda channel, made=made: made).render(request)
            self.assertEqual((b"".join(chunks), len(chunks)), (body, bool(body)))
            self.assertEqual(made.body_size, 6 if size == 6 else 0)
            made.gotLength.assert_called_once_with(size)

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
