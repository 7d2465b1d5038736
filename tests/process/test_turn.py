"""What a turn of the reactor does, in which order, and what it leaves to the next."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.process.shares import Flow, Level
from kapi.process.turn import Turn

COST = 0.0004  # seconds of a piece of work


class Case(SynchronousTestCase):
    """A turn has one millisecond; ``worked`` is what the work has taken."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.worked = 0.0
        self.turn = Turn(self.clock, seconds=0.001, timer=lambda: self.worked)
        self.level = Level("workload-low", 100)
        self.noisy, self.quiet = Flow(self.level), Flow(self.level)
        self.order: list[str] = []

    def piece(self, name: str, cost: float = COST) -> Callable[[], None]:
        def work() -> None:
            self.order.append(name)
            self.worked += cost

        return work

    def passes(self) -> list[str]:
        """What is done in one turn of the reactor."""
        before = len(self.order)
        due, self.clock.calls = self.clock.calls, []
        for call in due:
            call.func()
        return self.order[before:]


class Budget(Case):
    def test_a_turn_takes_no_more_than_its_time_and_the_rest_is_for_the_next(self) -> None:
        for number in range(7):
            self.turn.wait(self.piece(str(number)), self.noisy)
        self.assertEqual(self.order, [], "what is ready is collected first")
        self.assertEqual([self.passes(), self.passes()], [["0", "1", "2"], ["3", "4", "5"]])
        self.turn.wait(self.piece("quiet"), self.quiet)
        self.assertEqual(self.passes(), ["quiet", "6"])
        self.passes()
        self.assertEqual(self.clock.getDelayedCalls(), [], "nothing goes on turning when nothing waits")

    def test_one_piece_is_done_in_each_turn_however_long_it_takes(self) -> None:
        for name in "ab":
            self.turn.wait(self.piece(name, 5.0), self.noisy)
        self.assertEqual([self.passes(), self.passes()], [["a"], ["b"]])

    def test_what_comes_while_nothing_waits_is_done_at_once_until_the_time_is_over(self) -> None:
        self.turn.run(self.piece("a"), self.noisy)
        self.assertEqual(self.order, ["a"])
        self.turn.run(self.piece("b", 0.002), self.quiet)
        self.turn.run(self.piece("c"), self.noisy)
        self.assertEqual(self.order, ["a", "b"], "the time is over")
        self.assertEqual(self.passes(), ["c"])

    def test_what_continues_within_its_flows_work_does_not_wait(self) -> None:
        self.turn.wait(self.piece("other"), self.quiet)
        self.turn.wait(lambda: self.turn.run(self.piece("inner"), self.noisy), self.noisy)
        self.passes()
        self.assertEqual(sorted(self.order), ["inner", "other"])

    def test_work_without_a_flow_is_done_in_the_order_in_which_it_came(self) -> None:
        for name in "abcd":
            self.turn.wait(self.piece(name))
        self.assertEqual([self.passes(), self.passes()], [["a", "b", "c"], ["d"]])

    def test_a_fault_stops_nothing_else(self) -> None:
        def fail() -> None:
            raise ZeroDivisionError

        self.turn.wait(fail, self.noisy)
        self.turn.at_end(fail)
        self.turn.wait_long(fail, self.noisy)
        self.turn.wait(self.piece("short"), self.noisy)
        self.turn.wait_long(self.piece("long"), self.noisy)
        self.turn.at_end(self.piece("end"))
        self.assertEqual(self.passes(), ["short", "end", "long"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 3)

    def test_work_that_asks_ends_with_the_turn_but_has_half_a_millisecond_however_late_it_begins(self) -> None:
        counts: list[int] = []

        def read_many() -> None:
            count = 0
            while not self.turn.over():
                self.worked += 0.0001
                count += 1
            counts.append(count)

        self.turn.wait(read_many, self.noisy)
        self.turn.wait(self.piece("before", 0.0009), self.noisy)
        self.turn.wait(read_many, self.noisy)
        self.passes()
        self.passes()
        self.assertIn(counts[0], (10, 11))
        self.assertIn(counts[1], (5, 6))

    def test_nothing_is_over_while_no_turn_has_begun(self) -> None:
        self.worked += 5.0
        self.assertFalse(self.turn.over())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_flow_that_is_alone_has_longer_turns_until_another_one_comes(self) -> None:
        def take(flow: Flow, pieces: int) -> int:
            for _ in range(pieces):
                self.turn.wait(self.piece("a"), flow)
            return len(self.passes())

        self.assertEqual(take(self.noisy, 20), 3)
        for _ in range(50):
            take(self.noisy, 3)
        self.assertGreater(take(self.noisy, 20), 15)
        while self.clock.calls:
            self.passes()
        self.turn.wait(self.piece("b"), self.quiet)
        self.passes()
        self.assertEqual(take(self.noisy, 20), 3)

    def test_the_connections_of_a_flow_that_is_alone_need_not_ask_until_something_else_comes(self) -> None:
        def be_alone() -> None:
            for _ in range(200):
                self.turn.run(self.piece("a"), self.noisy)
                self.passes()
            self.assertIs(self.turn.alone, self.noisy)

        self.turn.run(self.piece("a"), self.noisy)
        self.assertIsNone(self.turn.alone, "it may be one of many that come")
        be_alone()
        self.turn.wait(self.piece("a"), self.noisy)
        self.assertIs(self.turn.alone, self.noisy)
        self.turn.run(self.piece("b"), self.quiet)
        self.assertIsNone(self.turn.alone)
        be_alone()
        self.passes()
        self.turn.wait(self.piece("b"), self.quiet)
        self.assertIsNone(self.turn.alone, "in a turn that begins with it")
        be_alone()
        self.turn.wait_long(self.piece("long"), self.noisy)
        self.assertIsNone(self.turn.alone, "short work goes before its own long one")

    def test_what_waits_since_before_a_flow_was_alone_is_not_passed_by_connections_that_need_not_ask(self) -> None:
        for _ in range(200):
            self.turn.run(self.piece("a"), self.noisy)
            self.passes()
        for _ in range(30):
            self.turn.wait(self.piece("waits"), self.noisy)
        self.worked += 0.02  # others of its connections are read, each for long
        self.assertGreater(self.passes().count("waits"), 20)
        self.worked += 0.02
        self.passes()
        self.assertEqual(self.order.count("waits"), 30)

    def test_handshakes_do_not_however_long_there_was_nothing_else(self) -> None:
        for new in (self.turn.new_connection_flow("192.0.2.1"), self.turn.first_read_flow("192.0.2.1")):
            for _ in range(200):
                self.turn.wait(self.piece("a"), new)
            while self.clock.calls:
                self.assertLessEqual(len(self.passes()), 3)
            for _ in range(9):
                self.turn.wait(self.piece("b"), new)
            self.turn.wait(self.piece("known"), self.quiet)
            self.assertIn("known", self.passes() + self.passes(), "nor do known clients wait for all of them")
            while self.clock.calls:
                self.passes()

    def test_each_host_has_a_flow_and_all_new_connections_have_one_share(self) -> None:
        crowd, other = (self.turn.new_connection_flow(host) for host in ("10.0.0.1", "10.0.0.2"))
        self.assertIs(self.turn.new_connection_flow("10.0.0.1"), crowd)
        self.assertIsNot(crowd, other)
        known = Flow(Level("workload-low", 240))
        for _ in range(1000):
            self.turn.wait(self.piece("handshake", 0.001), crowd)
        for _ in range(100):
            self.turn.wait(self.piece("known", 0.001), known)
        self.turn.wait(self.piece("other", 0.001), other)
        while self.clock.calls:
            self.passes()
        last = len(self.order) - self.order[::-1].index("known")
        self.assertLess(self.order.index("other"), 15)
        self.assertLessEqual(self.order[:last].count("handshake"), 40)

    def test_first_reads_after_a_handshake_wait_for_no_other_handshakes(self) -> None:
        known = Flow(Level("exempt", 1800))
        for _ in range(200):
            self.turn.wait(self.piece("handshake"), self.turn.new_connection_flow("10.0.0.1"))
            self.turn.wait(self.piece("known"), known)
        first = self.turn.first_read_flow("10.0.0.1")
        self.assertIs(self.turn.first_read_flow("10.0.0.1"), first)
        for _ in range(20):
            self.turn.wait(self.piece("first read"), first)
        while self.order.count("first read") < 20:
            self.passes()
        self.assertLess(self.order.count("handshake"), 10)
        self.assertTrue(50 <= self.order.count("known") <= 70, "whoever is known has a share as before")


class Order(Case):
    def test_work_counts_for_whom_it_is_done_in_the_end(self) -> None:
        """A connection that is read for one flow brings a request of another: the rest of the work is the other's."""
        busy = Flow(self.level)
        goes_first: list[bool] = []

        def read() -> None:
            self.worked += 0.0001
            goes_first.append(self.turn.switch(busy))
            self.worked += 0.05

        self.turn.wait(read, self.quiet)
        self.turn.wait(self.piece("waits"), self.noisy)
        self.passes()
        self.turn.wait(self.piece("busy"), busy)
        self.turn.wait(self.piece("quiet"), self.quiet)
        self.assertEqual(self.passes() + self.passes(), ["waits", "quiet", "busy"])
        self.assertEqual(goes_first, [True], "other work waits")

    def test_a_request_may_wait_for_its_flows_turn_in_the_middle_of_its_work(self) -> None:
        self.turn.next(self.noisy).addCallback(lambda _: self.order.append("goes on"))
        self.assertEqual(self.order, [])
        self.assertEqual(self.passes(), ["goes on"])

    def test_a_turn_that_no_request_waits_for_any_more_is_passed_over(self) -> None:
        waiting = self.turn.next(self.noisy)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.passes(), [])

    def test_a_crowd_that_was_alone_for_long_is_not_held_back_by_a_flow_that_comes_then(self) -> None:
        for _ in range(100):
            self.turn.run(self.piece("crowd"), self.noisy)
            self.passes()
        for name, flow in (("quiet", self.quiet), ("crowd", self.noisy)):
            for _ in range(30):
                self.turn.wait(self.piece(name), flow)
        self.order.clear()
        for _ in range(6):
            self.passes()
        self.assertTrue(6 <= self.order.count("crowd") <= 12, self.order)

    def test_answers_leave_before_a_slice_of_a_long_computation_begins(self) -> None:
        self.turn.wait_long(self.piece("long"), None)
        self.turn.wait(lambda: (self.order.append("short"), self.turn.at_end(self.piece("answer", 0.0))), self.quiet)
        self.turn.at_end(self.piece("earlier answer", 0.0))
        self.assertEqual(self.passes(), ["short", "earlier answer", "answer", "long"])

    def test_those_of_a_long_computation_leave_in_the_same_turn(self) -> None:
        self.turn.wait_long(lambda: self.turn.at_end(self.piece("answer")), None)
        self.assertEqual(self.passes(), ["answer"])
        self.assertEqual(self.clock.calls, [])


class LongComputations(Case):
    SLICE = 0.0005

    def long(self, name: str, flow: Flow) -> None:
        """A computation that never ends."""

        def work() -> None:
            self.order.append(name)
            self.worked += self.SLICE
            self.turn.wait_long(work, flow)

        self.turn.wait_long(work, flow)

    def test_they_have_the_whole_turn_while_there_is_nothing_else(self) -> None:
        self.long("long", self.noisy)
        self.assertEqual([len(self.passes()) for _ in range(3)], [2, 2, 2])

    def test_their_flows_take_turns(self) -> None:
        for name, flow in (("a", self.noisy), ("a", self.noisy), ("b", self.quiet)):
            self.long(name, flow)
        for _ in range(10):
            self.passes()
        self.assertTrue(9 <= self.order.count("b") <= 11, self.order)

    def test_short_work_comes_first_however_many_there_are_and_leaves_them_one_slice_a_turn(self) -> None:
        level = Level("global-default", 50)
        for _ in range(8):
            self.long("long", Flow(level))
        for _ in range(40):
            self.turn.wait(self.piece("short"), self.quiet)
        self.assertEqual(self.passes(), ["short", "short", "short", "long"])
        while self.order.count("short") < 40:
            self.passes()
        self.assertGreaterEqual(self.order.count("long"), 13)

    def test_what_they_take_does_not_count_against_the_short_work_of_their_flow(self) -> None:
        self.long("long", self.noisy)
        for _ in range(100):
            self.passes()
        self.order.clear()
        for _ in range(6):
            self.turn.wait(self.piece("large client"), self.noisy)
            self.turn.wait(self.piece("small client"), self.quiet)
        self.passes()
        self.assertEqual({*self.order}, {"large client", "small client", "long"})
