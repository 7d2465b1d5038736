"""Fair queues: limits, waiting, fairness between flows."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.flowcontrol.fair_queues import CONCURRENCY_LIMIT, QUEUE_FULL, TIME_OUT, FairQueues, deal, flow_hash
from kapi.flowcontrol.level import Claim, RetryAfter, allocate
from kapi.flowcontrol.queue import Request


class Queues(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()

    def make(self, limit: int | None = 2, queues: int = 8, hand: int = 2, length: int = 3) -> FairQueues:
        return FairQueues(self.clock, limit, queues, hand, length)

    def request(self, flow: str = "a", seats: int = 1, **more: Any) -> Request:
        return Request("schema", flow_hash("schema", flow), seats, **more)

    def test_up_to_the_limit_nobody_waits(self) -> None:
        queues = self.make()
        first, second, third = (self.request() for _ in range(3))
        self.assertEqual([queues.admit(first, 9), queues.admit(second, 9)], ["", ""])
        waiting = queues.admit(third, 9)
        assert isinstance(waiting, Deferred)
        self.assertNoResult(waiting)
        self.assertEqual((queues.executing, queues.waiting, queues.seats_in_use, queues.seats_waiting), (2, 1, 2, 1))
        queues.finish(first)
        self.assertEqual(self.successResultOf(waiting), "")
        queues.finish(second)
        queues.finish(third)
        self.assertTrue(queues.idle)

    def test_without_queues_it_is_rejected(self) -> None:
        queues = self.make(limit=1, queues=0)
        self.assertEqual(queues.admit(self.request(), 9), "")
        self.assertEqual(queues.admit(self.request(), 9), CONCURRENCY_LIMIT)

    def test_without_limit_everything_passes(self) -> None:
        queues = self.make(limit=None)
        requests = [self.request() for _ in range(100)]
        self.assertEqual({queues.admit(request, 9) for request in requests}, {""})
        for request in requests:
            queues.finish(request)
        self.assertTrue(queues.idle)

    def test_many_queues_take_memory_when_they_are_used(self) -> None:
        """The API allows ten million of them."""
        tracemalloc.start()
        try:
            queues = self.make(limit=1, queues=9_999_999)
            queues.reconfigure(10_000_000, 2, 3)
            outcomes = [queues.admit(self.request(str(flow)), 9) for flow in range(100)]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.assertLess(peak, 2 << 20)
        self.assertEqual((queues.executing, queues.waiting, queues.capacity), (1, 99, 30_000_000))
        queues.reconfigure(0, 0, 0)
        self.assertEqual([self.successResultOf(each) for each in outcomes if isinstance(each, Deferred)], [""] * 99)

    def test_a_full_hand_of_queues_is_the_end(self) -> None:
        queues = self.make(limit=1, queues=8, hand=2, length=3)
        outcomes = [queues.admit(self.request(), 9) for _ in range(8)]
        self.assertEqual(outcomes[0], "")
        self.assertEqual(outcomes[7], QUEUE_FULL, "one runs, two queues of three wait")
        self.assertIsInstance(queues.admit(self.request("other"), 9), Deferred, "another flow has other queues")

    def test_the_longest_wait_ends(self) -> None:
        queues = self.make(limit=1)
        queues.admit(self.request(), 9)
        waiting = queues.admit(self.request(), 5)
        assert isinstance(waiting, Deferred)
        self.clock.advance(5)
        self.assertEqual(self.successResultOf(waiting), TIME_OUT)
        self.assertEqual((queues.waiting, queues.seats_waiting), (0, 0))

    def test_a_client_that_goes_away_leaves_its_queue(self) -> None:
        queues = self.make(limit=1)
        first = self.request()
        queues.admit(first, 9)
        waiting = queues.admit(self.request(), 5)
        assert isinstance(waiting, Deferred)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        queues.finish(first)
        self.assertTrue(queues.idle)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_wide_requests_wait_for_enough_seats(self) -> None:
        queues = self.make(limit=4)
        narrow = self.request()
        queues.admit(narrow, 9)
        wide, late = queues.admit(self.request("w", 4), 9), self.request("l")
        waiting = queues.admit(late, 9)
        assert isinstance(wide, Deferred) and isinstance(waiting, Deferred)
        queues.finish(narrow)
        self.assertEqual(self.successResultOf(waiting), "", "the smaller one is done sooner")
        self.assertNoResult(wide)
        queues.finish(late)
        self.assertEqual(self.successResultOf(wide), "")

    def test_wider_than_the_level_runs_alone(self) -> None:
        queues = self.make(limit=2)
        self.assertEqual(queues.admit(self.request(seats=10), 9), "")
        self.assertIsInstance(queues.admit(self.request("b"), 9), Deferred)

    def test_seats_are_kept_for_the_watchers_of_a_write(self) -> None:
        queues = self.make(limit=3)
        write = self.request(seats=1, final_seats=3, additional_latency=0.5)
        queues.admit(write, 9)
        waiting = queues.admit(self.request("b"), 9)
        assert isinstance(waiting, Deferred)
        queues.finish(write)
        self.assertEqual((queues.executing, queues.seats_in_use), (0, 3))
        self.clock.advance(0.5)
        self.assertEqual(self.successResultOf(waiting), "")

    def test_a_larger_limit_lets_more_in(self) -> None:
        queues = self.make(limit=1)
        queues.admit(self.request(), 9)
        waiting = queues.admit(self.request(), 9)
        assert isinstance(waiting, Deferred)
        queues.set_limit(2)
        self.assertEqual(self.successResultOf(waiting), "")

    def test_other_queues_take_over_who_waits(self) -> None:
        for count in (0, 3):
            queues = self.make(limit=1)
            first = self.request()
            queues.admit(first, 9)
            waiting = [queues.admit(self.request(flow), 9) for flow in "bcd"]
            queues.reconfigure(count, min(count, 2), 50)
            for _ in range(4):
                for request in [first]:
                    queues.finish(request)
            done = [item for item in waiting if isinstance(item, Deferred) and item.called]
            self.assertEqual(len(done), 3 if count == 0 else 1)

    def test_a_flood_leaves_the_quiet_flow_its_share(self) -> None:
        """A flow with 100 times the load does not keep another waiting for longer than a few services."""
        queues = self.make(limit=4, queues=64, hand=6, length=50)
        rng = random.Random(1)
        waits: list[float] = []
        running: list[Request] = []

        def start(flow: str) -> None:
            request, begun = self.request(flow), self.clock.seconds()
            outcome = queues.admit(request, 60)

            def go(why: str) -> None:
                if why:
                    return
                if flow == "quiet":
                    waits.append(self.clock.seconds() - begun)
                self.clock.callLater(0.01 * rng.uniform(0.5, 1.5), queues.finish, request)

            if isinstance(outcome, Deferred):
                outcome.addCallback(go)
            else:
                go(outcome)

        for step in range(3000):
            for _ in range(8):
                start("noisy")
            if step % 10 == 0:
                start("quiet")
            self.clock.advance(0.01)
        waits.sort()
        self.assertGreaterEqual(len(waits), 299)
        self.assertLess(waits[int(len(waits) * 0.99)], 0.05)
        self.assertEqual(running, [])

    def test_requests_that_end_at_once_do_not_pile_up_on_the_stack(self) -> None:
        queues = self.make(limit=1, queues=4, hand=1, length=5000)
        first = self.request()
        queues.admit(first, 99)
        done: list[int] = []
        for number in range(3000):
            request = self.request()
            waiting = queues.admit(request, 99)
            assert isinstance(waiting, Deferred)
            waiting.addCallback(lambda _, request=request, number=number: (done.append(number), queues.finish(request)))
        queues.finish(first)
        self.assertEqual(done, list(range(3000)))

    def test_two_greedy_flows_share_equally(self) -> None:
        queues = self.make(limit=2, queues=64, hand=1, length=50)
        served = {"a": 0, "b": 0}

        def start(flow: str, seats: int) -> None:
            request = self.request(flow, seats)
            outcome = queues.admit(request, 60)

            def go(why: str) -> None:
                if not why:
                    served[flow] += seats
                    self.clock.callLater(0.01, queues.finish, request)

            if isinstance(outcome, Deferred):
                outcome.addCallback(go)
            else:
                go(outcome)

        for _ in range(500):
            for _ in range(4):
                start("a", 1)
            start("b", 2)
            self.clock.advance(0.01)
        self.assertLess(abs(served["a"] / served["b"] - 1), 0.1)

    def test_waiting_for_the_store_is_held_against_nobody_while_seats_are_free(self) -> None:
        queues = self.make(limit=4, queues=16, hand=1, length=50)
        for _ in range(10):
            write = self.request("quiet")
            queues.admit(write, 60)
            self.clock.advance(1.0)
            queues.finish(write, 0.0003)
        noisy = [self.request("noisy") for _ in range(20)]
        outcomes = [queues.admit(request, 60) for request in noisy]
        self.assertEqual(outcomes.count(""), 4)
        late = queues.admit(self.request("quiet"), 60)
        assert isinstance(late, Deferred)
        for request in noisy[:2]:
            self.clock.advance(0.01)
            queues.finish(request, 0.001)
        self.assertEqual(self.successResultOf(late), "")

    def test_while_seats_are_scarce_a_request_counts_for_as_long_as_it_has_one(self) -> None:
        """A client whose requests hold the only seat for a second each lets the other one go ten times between."""
        queues = self.make(limit=1, queues=16, hand=1, length=50)
        order: list[str] = []
        running: list[tuple[Request, str]] = []

        def start(flow: str) -> None:
            request = self.request(flow)

            def go(why: str) -> None:
                order.append(flow)
                running.append((request, flow))

            outcome = queues.admit(request, 600)
            if isinstance(outcome, Deferred):
                outcome.addCallback(go)
            else:
                go(outcome)

        for _ in range(20):
            start("slow")
            start("fast")
        while running:
            request, flow = running.pop()
            self.clock.advance(1.0 if flow == "slow" else 0.1)
            queues.finish(request, 0.0001)
        self.assertGreaterEqual(order[:12].count("fast"), 9)
        self.assertEqual(len(order), 40)

    def test_the_last_seats_are_for_those_who_have_none(self) -> None:
        queues = self.make(limit=32, queues=64, hand=2, length=500)
        noisy = [self.request("noisy") for _ in range(100)]
        outcomes = [queues.admit(request, 60) for request in noisy]
        self.assertEqual(outcomes.count(""), 30)
        quiet = self.request("quiet")
        self.assertEqual(queues.admit(quiet, 60), "")
        second = queues.admit(self.request("quiet"), 60)
        assert second == "" or isinstance(second, Deferred), "its hand has two queues"
        third = queues.admit(self.request("quiet"), 60)
        self.assertIsInstance(third, Deferred)
        self.assertLessEqual(queues.seats_in_use, 32)
        queues.finish(quiet)
        for request, outcome in zip(noisy, outcomes, strict=True):
            if outcome == "":
                queues.finish(request)
                self.assertLessEqual(queues.seats_in_use, 32)
        self.assertEqual(queues.executing, 32 - 2)

    def test_no_seat_is_kept_where_there_are_few_or_nobody_else(self) -> None:
        for limit, number, expected in ((15, 64, 15), (64, 1, 64), (64, 64, 60)):
            queues = self.make(limit=limit, queues=number, hand=1, length=500)
            self.assertEqual([queues.admit(self.request(), 60) for _ in range(100)].count(""), expected)

    def test_a_wide_request_gets_its_seats_when_they_are_free(self) -> None:
        queues = self.make(limit=32, queues=64, hand=1, length=50)
        narrow = [self.request() for _ in range(30)]
        for request in narrow:
            self.assertEqual(queues.admit(request, 60), "")
        wide = queues.admit(self.request(seats=32), 60)
        assert isinstance(wide, Deferred)
        for request in narrow:
            self.assertNoResult(wide)
            queues.finish(request)
        self.assertEqual(self.successResultOf(wide), "")


class Parts(SynchronousTestCase):
    def test_retry_after_grows_with_rejections_and_falls_again(self) -> None:
        advice = RetryAfter()
        seen = []
        for second in range(100, 300):
            for _ in range(200 if second < 120 else second % 10 == 0):
                advice.dropped(second)
            seen.append(advice.seconds)
        self.assertEqual(seen[0], 1)
        self.assertGreaterEqual(max(seen), 16)
        self.assertLess(seen[-1], max(seen))

    def test_hands_have_different_cards(self) -> None:
        hands = [deal(flow_hash("s", str(n)), 64, 6) for n in range(500)]
        for hand in hands:
            self.assertEqual(len(set(hand)), 6)
            self.assertTrue(all(0 <= card < 64 for card in hand))
        self.assertGreater(len({tuple(sorted(hand)) for hand in hands}), 495)
        self.assertEqual({card for hand in hands for card in hand}, set(range(64)))
        self.assertEqual(sorted(deal(12345, 6, 6)), list(range(6)))


@st.composite
def problems(draw: Any) -> tuple[float, list[Claim]]:
    claims = []
    for _ in range(draw(st.integers(1, 8))):
        lower = draw(st.integers(0, 50))
        claims.append(Claim(lower, lower + draw(st.integers(0, 200)), lower + draw(st.floats(0, 100))))
    return draw(st.integers(1, 800)), claims


@given(problems())
def test_allocation_keeps_the_bounds_and_is_fair(problem: tuple[float, list[Claim]]) -> None:
    total, claims = problem
    seats, fraction = allocate(total, claims)
    low, high = sum(claim.lower for claim in claims), sum(claim.upper for claim in claims)
    assert abs(sum(seats) - min(max(total, low), high)) < 1e-6 * max(1, total)
    for claim, seat in zip(claims, seats, strict=True):
        assert claim.lower - 1e-9 <= seat <= claim.upper + 1e-9
        if low < total < high and claim.lower + 1e-6 < seat < claim.upper - 1e-6:
            assert abs(seat - fraction * max(claim.target, 0.001)) < 1e-6
