"""When logical clusters are served and when they sleep: over parts that only note what they are told, and a clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial import unittest

from kapi.machinery.status import NotFound, ServiceUnavailable
from kapi.registry.environment import Identities
from kapi.request.response import Response
from kapi.store.errors import StoreUnavailable
from kapi.store.memory import MemoryStore
from kapi.testbed import clusters as module
from kapi.testbed.clusters import Clusters
from kapi.testbed.moved_clock import MovedClock


class Parts:
    """What would serve a store."""

    def __init__(self, store: MemoryStore, starting: Deferred[None] | None) -> None:
        self.store, self.told = store, ["made"]
        self._starting = starting
        self.broken = self.stops_badly = False

    async def start(self) -> None:
        if self._starting is not None:
            await self._starting
        self.told.append("started")

    def begin(self) -> None:
        self.told.append("begun")

    async def stop(self, why: Exception | None = None) -> None:
        self.told.append("stopped" if why is None else type(why).__name__)
        if self.stops_badly:
            raise ValueError("broken")

    def tick(self) -> None:
        self.told.append("tick")
        if self.broken:
            raise ValueError("broken")

    def handle(self, ctx: Any) -> Response:
        self.told.append(ctx.path)
        return Response(200, b"")


class TestLogicalClusters(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.made: list[Parts] = []
        self.starting: Deferred[None] | None = None
        self.clusters = Clusters(self.clock, self.clock.seconds, lambda _: MemoryStore(), self._make, lambda: "now")
        self.clusters.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(self.clusters.stop()))
        self.serve = self.clusters.around(lambda ctx: Response(404, b""))

    def _make(self, store: MemoryStore, clock: MovedClock, identities: Identities | None) -> Parts:
        self.made.append(Parts(store, self.starting))
        return self.made[-1]

    def ask(self, path: str, method: str = "GET") -> tuple[Any, Any]:
        http = SimpleNamespace(uri=path.encode())
        ctx: Any = SimpleNamespace(path=path, method=method, http=http, annotations={}, finishers=[])
        answer = self.serve(ctx)
        return ctx, answer

    def finish(self, ctx: Any) -> None:
        for finisher in ctx.finishers:
            finisher(ctx, 200)

    def advance(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def test_it_is_made_by_the_first_request_and_begins_with_the_first_write(self) -> None:
        self.clusters.create("x")
        self.assertEqual(self.made, [])
        ctx, _ = self.ask("/clusters/x/api/v1/pods?a=/clusters/x/")
        self.assertEqual(ctx.http.uri, b"/api/v1/pods?a=/clusters/x/")
        self.assertEqual(ctx.annotations, {"kapi/cluster": "x"})
        self.ask("/clusters/x/api", "POST")
        self.clock.advance(0)
        self.assertEqual(self.made[0].told, ["made", "started", "/api/v1/pods?a=/clusters/x/", "/api", "begun"])

    def test_other_paths_are_the_servers(self) -> None:
        self.clusters.create("x")
        for path in ("/clusters/x", "/clusters/y/api", "/clusters", "/clustersx/api", "/api"):
            ctx, answer = self.ask(path)
            self.assertEqual((answer.status, ctx.path), (404, path))
        self.assertEqual(self.made, [])

    def test_a_prefix_that_is_escaped_is_no_cluster(self) -> None:
        """What was authorized is what is served: the raw path must agree with the decoded one."""
        self.clusters.create("x")
        ctx: Any = SimpleNamespace(
            path="/clusters/x/api", method="GET", http=SimpleNamespace(uri=b"/clusters%2Fx/api"), annotations={}
        )
        answer: Any = self.serve(ctx)
        self.assertEqual(answer.status, 404)

    def test_requests_wait_until_it_is_started(self) -> None:
        self.clusters.create("x")
        self.starting = Deferred()
        waiting = [Deferred.fromCoroutine(self.ask("/clusters/x/api")[1]) for _ in range(2)]
        self.assertNoResult(waiting[0])
        self.starting.callback(None)
        for each in waiting:
            self.assertEqual(self.successResultOf(each).status, 200)
        self.assertEqual(len(self.made), 1)

    def test_a_request_that_is_refused_while_it_sleeps_does_not_wake_it(self) -> None:
        asked: list[str] = []

        async def gate(ctx: Any, store: MemoryStore, clock: MovedClock) -> Response | None:
            asked.append(ctx.path)
            return None if ctx.path == "/good" else Response(401, b"")

        self.clusters = Clusters(
            self.clock, self.clock.seconds, lambda _: MemoryStore(), self._make, lambda: "now", gate
        )
        self.serve = self.clusters.around(lambda ctx: Response(404, b""))
        cluster = self.clusters.create("x")
        for path, code in (("/bad", 401), ("/good", 200)):
            ctx, answer = self.ask(f"/clusters/x{path}")
            self.assertEqual(self.successResultOf(Deferred.fromCoroutine(answer)).status, code)
            self.finish(ctx)
        self.assertEqual((self.ask("/clusters/x/bad")[1].status, asked), (200, ["/bad", "/good"]))
        self.assertEqual(
            (len(self.made), self.made[0].told, cluster.requests), (1, ["made", "started", "/good", "/bad"], 1)
        )

    def test_one_that_cannot_be_started_is_tried_again(self) -> None:
        self.clusters.create("x")
        self.starting = Deferred()
        waiting = Deferred.fromCoroutine(self.ask("/clusters/x/api")[1])
        broken, self.starting = self.starting, None
        broken.errback(ValueError("broken"))
        self.assertEqual(self.successResultOf(waiting).status, 200)
        self.assertEqual(len(self.made), 2)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_request_does_not_wait_for_what_never_starts(self) -> None:
        async def start(parts: Any) -> None:
            raise ValueError("broken")

        self.patch(Parts, "start", start)
        self.clusters.create("x")
        waiting = Deferred.fromCoroutine(self.ask("/clusters/x/api")[1])
        self.failureResultOf(waiting, ServiceUnavailable)
        self.flushLoggedErrors(ValueError)

    def test_it_sleeps_when_nobody_asks_and_wakes_with_what_it_holds(self) -> None:
        self.clusters.create("x")
        ctx, _ = self.ask("/clusters/x/api", "POST")
        self.advance(100)
        self.assertNotIn("stopped", self.made[0].told)  # a request is not answered yet: it may be a watch
        self.finish(ctx)
        self.advance(int(module.IDLE_SECONDS) + 1)
        self.assertIn("stopped", self.made[0].told)
        self.ask("/clusters/x/api")
        self.assertIs(self.made[1].store, self.made[0].store)
        self.clock.advance(0)
        self.assertEqual(self.made[1].told, ["made", "started", "/api", "begun"])  # work may have been left

    def test_when_many_are_awake_those_sleep_that_were_not_asked_for_longest(self) -> None:
        self.patch(module, "MAX_AWAKE", 2)
        for number in range(4):
            self.clusters.create(f"c{number}")
            ctx, _ = self.ask(f"/clusters/c{number}/api")
            if number:
                self.finish(ctx)
            self.clock.advance(0.1)
        self.clock.advance(1)
        self.assertEqual(["stopped" in parts.told for parts in self.made], [False, True, False, False])

    def test_a_reset_gives_it_a_store_of_a_later_revision(self) -> None:
        cluster = self.clusters.create("x")
        snapshot = self.clusters.snapshot("x")
        self.successResultOf(Deferred.fromCoroutine(cluster.store.create("core/pods/a/b", b"", b"")))
        self.ask("/clusters/x/api")
        self.successResultOf(Deferred.fromCoroutine(cluster.reset(snapshot)))
        self.assertEqual(self.made[0].told[-1], "Compacted")
        self.ask("/clusters/x/api")
        self.assertEqual((self.made[1].store.newest, self.made[1].store.snapshot().size), (2, 0))

    def test_a_fault_of_one_is_not_the_others(self) -> None:
        for name in ("one", "other"):
            self.clusters.create(name)
            self.ask(f"/clusters/{name}/api")
        self.made[0].broken = True
        self.advance(2)
        self.assertEqual([parts.told.count("tick") for parts in self.made], [2, 2])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)

    def test_one_that_cannot_be_stopped_in_order_keeps_no_other_running(self) -> None:
        for name in ("one", "other"):
            self.clusters.create(name)
            self.ask(f"/clusters/{name}/api")
        self.made[0].stops_badly = True
        self.successResultOf(Deferred.fromCoroutine(self.clusters.stop()))
        self.assertEqual([parts.told[-1] for parts in self.made], ["stopped", "stopped"])
        self.assertEqual(len(self.clusters), 0)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_one_that_cannot_be_stopped_in_order_is_reset_nevertheless(self) -> None:
        cluster = self.clusters.create("x")
        self.ask("/clusters/x/api")
        self.made[0].stops_badly = True
        self.successResultOf(Deferred.fromCoroutine(cluster.reset(self.clusters.snapshot("x"))))
        self.ask("/clusters/x/api")
        self.assertIs(self.made[1].store, cluster.store)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_request_that_waits_for_what_is_removed_is_told_so(self) -> None:
        self.clusters.create("x")
        self.starting = Deferred()
        waiting = Deferred.fromCoroutine(self.ask("/clusters/x/api")[1])
        self.successResultOf(Deferred.fromCoroutine(self.clusters.remove("x")))
        self.starting.callback(None)
        self.failureResultOf(waiting, NotFound)
        self.assertEqual(len(self.made), 1)

    def test_a_write_that_waited_while_it_was_removed_or_reset_is_not_acknowledged(self) -> None:
        """As one that a webhook was asked about: its object is in no store that anybody reads."""
        cluster = self.clusters.create("x")
        snapshot = self.clusters.snapshot("x")
        for end, word in ((lambda: cluster.reset(snapshot), "reset"), (cluster.remove, "removed")):
            former = cluster.store
            self.successResultOf(Deferred.fromCoroutine(former.create(f"core/configmaps/a/{word}", b"{}", b"")))
            self.successResultOf(Deferred.fromCoroutine(end()))
            late = Deferred.fromCoroutine(former.create("core/configmaps/a/late", b"{}", b""))
            self.assertIn(word, str(self.failureResultOf(late, StoreUnavailable).value))
            self.assertEqual(former.matching("core/configmaps/a/late"), [])

    def test_what_expires_is_swept_though_it_sleeps(self) -> None:
        store = self.clusters.create("x").store
        self.successResultOf(Deferred.fromCoroutine(store.create("core/events/a/b", b"", b"", expires=3.0)))
        self.advance(10)
        self.assertFalse(store.expiring)
