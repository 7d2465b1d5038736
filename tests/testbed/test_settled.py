"""``/kapi/settled`` answers when watches, requests and controllers have nothing left to do, and not before."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.filters.shutdown import RequestWaitGroup
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource
from kapi.request.context import RequestContext
from kapi.runtime.workqueue import WorkQueue
from kapi.testbed.settled import PATH, Settled
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI

MAPS = "/api/v1/namespaces/n1/configmaps"


class Settling(TestCase):
    async def begin(self) -> None:
        self.api = await MemoryAPI.started()
        self.requests = RequestWaitGroup()
        self.settled = Settled(self.api.caches, self.requests, self.api.clock)
        self.api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n1"}})
        self.api.turn()

    def ask(self, query: str = "") -> list[Any]:
        """What comes of it, as soon as that is known."""
        http = MemoryRequest("GET", PATH + query)
        ctx = RequestContext(http, "GET", PATH, parse_qs(query.removeprefix("?")))
        answers: list[Any] = []
        self.requests.add()

        def done(answer: Any) -> None:
            self.requests.done()
            answers.append(getattr(answer, "value", answer))

        Deferred.fromCoroutine(self.settled.handle(ctx)).addBoth(done)
        return answers

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            self.api.turn(0.05)

    async def test_when_nothing_is_left_it_answers_the_revision(self) -> None:
        await self.begin()
        answers = self.ask()
        self.wait(0.1)
        self.assertEqual(answers[0].status, 200)
        self.assertEqual(answers[0].body, b'{"revision":%d}' % self.api.caches.revision)

    async def test_two_at_a_time_do_not_wait_for_each_other(self) -> None:
        await self.begin()
        one, two = self.ask(), self.ask()
        self.wait(0.2)
        self.assertEqual([one[0].status, two[0].status], [200, 200])

    async def test_a_revision_that_is_still_to_come(self) -> None:
        await self.begin()
        answers = self.ask(f"?revision={self.api.caches.revision + 1}")
        self.wait(1)
        self.assertEqual(answers, [])
        self.api.ask("POST", MAPS, {"metadata": {"name": "c"}})
        self.wait(0.2)
        self.assertEqual(answers[0].status, 200)

    async def test_a_request_that_is_being_answered(self) -> None:
        await self.begin()
        self.requests.add()
        answers = self.ask()
        self.wait(1)
        self.assertEqual(answers, [])
        self.requests.done()
        self.wait(0.2)
        self.assertEqual(answers[0].status, 200)

    async def test_a_watch_whose_client_does_not_read(self) -> None:
        await self.begin()
        cache = self.api.caches.cache(GroupResource("", "configmaps"))
        watch = cache.watch(None, lambda batch: None, lambda error: None)
        watch.pause()
        self.api.ask("POST", MAPS, {"metadata": {"name": "c"}})
        answers = self.ask()
        self.wait(1)
        self.assertEqual(answers, [])
        watch.resume()
        self.wait(0.2)
        self.assertEqual(answers[0].status, 200)
        watch.stop()

    async def test_what_controllers_do_now_and_soon(self) -> None:
        await self.begin()
        work: Deferred[None] = Deferred()

        async def handle(key: str) -> None:
            await work

        queue: WorkQueue[str] = WorkQueue(self.api.clock, "tests", handle)
        self.addCleanup(queue.stop)
        queue.add_after("later", 1.0)
        answers = self.ask()
        self.wait(2)
        self.assertEqual(answers, [])
        work.callback(None)
        self.wait(0.2)
        self.assertEqual(answers[0].status, 200)
        queue.add_after("much later", 100.0)
        again = self.ask()
        self.wait(0.2)
        self.assertEqual(again[0].status, 200)

    async def test_in_the_end_it_says_what_goes_on(self) -> None:
        await self.begin()
        self.requests.add()
        answers = self.ask("?timeout=2s")
        self.wait(1.5)
        self.assertEqual(answers, [])
        self.wait(1)
        self.assertIsInstance(answers[0], status.Timeout)
        self.assertIn("not settled: 1 requests are being answered", answers[0].message)

    async def test_what_is_no_number_is_refused(self) -> None:
        await self.begin()
        for query in ("?revision=x", "?revision=-1", "?revision=1.5", "?revision=99999999999999999999"):
            self.assertIsInstance(self.ask(query)[0], status.BadRequest)
