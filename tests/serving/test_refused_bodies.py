"""A request that fails leaves nothing for the garbage collector: its body, which may be large, goes when it is answered."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.filters.chain import FilterChain
from kapi.machinery.checkpoint import checkpoint, engage
from kapi.machinery.status import ServiceUnavailable
from kapi.process.slices import Slices
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.run import RequestRunner
from kapi.store.errors import StoreUnavailable
from kapi.testing.http import MemoryRequest


class Body(dict[str, object]):
    """One that can be referred to weakly."""


Work = Callable[[Body], Awaitable[None]]


class Refused(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.body: weakref.ref[Body] | None = None
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)

    def ask(self, work: Work, slices: Slices | None = None) -> MemoryRequest:
        async def handle(ctx: RequestContext) -> Response:
            body = Body()
            self.body = weakref.ref(body)
            await work(body)
            return Response(200, b"answer")

        request = MemoryRequest("POST", "/")
        RequestRunner(FilterChain([], handle), self.clock, slices=slices).serve(request)
        return request

    def gone(self, request: MemoryRequest, code: int) -> None:
        self.assertEqual((request.finished, request.code), (True, code))
        assert self.body is not None
        self.assertIsNone(self.body(), "something that only the garbage collector finds holds it")

    async def _refuse(self, body: Body) -> None:
        try:
            await fail(StoreUnavailable("away"))
        except StoreUnavailable as error:
            raise ServiceUnavailable("later") from error

    def test_at_once(self) -> None:
        async def refuse(body: Body) -> None:
            raise StoreUnavailable("away")

        self.gone(self.ask(refuse), 503)

    def test_by_the_store(self) -> None:
        async def refuse(body: Body) -> None:
            await fail(StoreUnavailable("away"))

        self.gone(self.ask(refuse), 503)

    def test_by_the_store_in_other_words(self) -> None:
        self.gone(self.ask(self._refuse), 503)

    def test_later(self) -> None:
        answer: Deferred[None] = Deferred()

        async def refuse(body: Body) -> None:
            await answer

        request = self.ask(refuse)
        answer.errback(StoreUnavailable("away"))
        self.gone(request, 503)
        self.assertIsNone(answer.result)

    def test_in_slices(self) -> None:
        async def refuse(body: Body) -> None:
            engage()
            checkpoint()
            await self._refuse(body)

        request = self.ask(refuse, Slices(self.clock, length=-1))
        self.assertFalse(request.finished)
        while not request.finished:
            self.clock.advance(0)
        self.gone(request, 503)
