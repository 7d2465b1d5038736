"""Whose work is next, in turns of the reactor."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.request.flow import Flow, Level
from kapi.scheduling.thread_scheduler import ThreadScheduler

COST = 0.0004  # seconds of a piece of work


class Piece:
    def __init__(self, flow: Flow | None, work: Callable[[], None]) -> None:
        self.flow = flow
        self.take_turn = work


class Turns(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.worked = 0.0
        self.scheduler = ThreadScheduler(self.clock, timer=lambda: self.worked, budget=0.001)
        self.level = Level("workload-low", 100)
        self.noisy, self.quiet = Flow(self.level), Flow(self.level)
        self.order: list[str] = []

    def compete(self) -> None:
        for flow in (self.noisy, self.quiet):
            self.scheduler.note_request(flow)

    def piece(self, name: str, flow: Flow, cost: float = COST) -> Piece:
        def work() -> None:
            self.order.append(name)
            self.worked += cost

        return Piece(flow, work)

    def turn(self) -> list[str]:
        """What is done in one turn of the reactor."""
        before = len(self.order)
        due, self.clock.calls = self.clock.calls, []
        for call in due:
            call.func()
        return self.order[before:]

    def test_a_turn_takes_no_more_than_its_budget_and_the_rest_is_for_the_next(self) -> None:
        for number in range(7):
            self.scheduler.wait(self.piece(str(number), self.noisy))
        self.assertEqual(self.order, [], "what is ready is collected first")
        self.assertEqual([self.turn(), self.turn()], [["0", "1", "2"], ["3", "4", "5"]])
        self.scheduler.wait(self.piece("quiet", self.quiet))
        self.assertEqual(self.turn(), ["quiet", "6"])
        self.turn()
        self.assertEqual(self.clock.getDelayedCalls(), [], "nothing goes on turning when nobody waits")

    def test_a_flow_that_is_alone_for_now_may_take_longer(self) -> None:
        def take(flow: Flow, pieces: int) -> int:
            for _ in range(pieces):
                self.scheduler.wait(self.piece("a", flow))
            return len(self.turn())

        self.assertEqual(take(self.noisy, 20), 3)
        self.clock.rightNow += 0.1
        self.assertEqual(take(self.noisy, 0), 13)
        self.scheduler.wait(self.piece("b", self.quiet))
        self.turn()
        self.assertEqual(take(self.noisy, 20), 3)

    def test_handshakes_do_not_however_long_there_was_nothing_else(self) -> None:
        new = self.scheduler.new_connection_flow("192.0.2.1")
        for _ in range(9):
            self.scheduler.wait(self.piece("a", new))
        self.clock.rightNow += 1
        self.assertEqual([len(self.turn()) for _ in range(3)], [3, 3, 3])
        for _ in range(9):
            self.scheduler.wait(self.piece("b", new))
        self.clock.rightNow += 1
        self.scheduler.wait(self.piece("known", self.quiet))
        self.assertIn("known", self.turn() + self.turn(), "nor do those who are known wait for all of them")

    def test_one_is_served_in_each_turn_however_long_it_takes(self) -> None:
        for name in "ab":
            self.scheduler.wait(self.piece(name, self.noisy, 5.0))
        self.assertEqual([self.turn(), self.turn()], [["a"], ["b"]])

    def test_who_comes_while_nobody_waits_goes_at_once(self) -> None:
        self.scheduler.run(self.piece("a", self.noisy))
        self.assertEqual(self.order, ["a"])
        self.scheduler.run(self.piece("b", self.quiet, 0.002))
        self.scheduler.run(self.piece("c", self.noisy))
        self.assertEqual(self.order, ["a", "b"], "the turn is used up")
        self.assertEqual(self.turn(), ["c"])

    def test_what_goes_on_within_its_flows_turn_does_not_wait_for_another(self) -> None:
        inner = self.piece("inner", self.noisy)
        self.scheduler.wait(self.piece("other", self.quiet))
        self.scheduler.wait(Piece(self.noisy, lambda: self.scheduler.run(inner)))
        self.turn()
        self.assertEqual(sorted(self.order), ["inner", "other"])

    def test_what_fails_stops_nobody(self) -> None:
        def fail() -> None:
            raise ZeroDivisionError

        self.scheduler.wait(Piece(self.noisy, fail))
        self.scheduler.wait(self.piece("next", self.noisy))
        self.assertEqual(self.turn(), ["next"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_work_counts_for_whom_it_is_done_in_the_end(self) -> None:
        """A connection that is read for one flow brings a request of another: the rest of its turn is the other's."""
        busy = Flow(self.level)

        def read() -> None:
            self.worked += 0.0001
            self.scheduler.switch(busy)
            self.worked += 0.05

        self.scheduler.wait(Piece(self.quiet, read))
        self.turn()
        self.scheduler.wait(self.piece("busy", busy))
        self.scheduler.wait(self.piece("quiet", self.quiet))
        self.assertEqual(self.turn(), ["quiet", "busy"])

    def test_what_others_do_for_a_flow_counts(self) -> None:
        self.scheduler.charge(self.noisy, 0.05)
        self.scheduler.wait(self.piece("noisy", self.noisy))
        self.scheduler.wait(self.piece("quiet", self.quiet))
        self.assertEqual(self.turn(), ["quiet", "noisy"])

    def test_what_comes_late_in_a_turn_is_late_whatever_was_done_before_it(self) -> None:
        late: list[bool] = []

        def read_many() -> None:
            for _ in range(4):
                late.append(self.scheduler.late())
                self.worked += COST

        self.scheduler.wait(self.piece("before", self.noisy, 0.0009))
        self.scheduler.wait(Piece(self.quiet, read_many))
        self.turn()
        self.assertEqual((self.order, late), (["before"], [False, False, False, True]))

    def test_what_comes_in_nobodys_turn_is_late_if_somebody_waits_or_the_turn_is_used_up(self) -> None:
        self.assertFalse(self.scheduler.late())
        before = self.scheduler.begin(self.noisy)  # an answer leaves
        self.assertFalse(self.scheduler.late())
        self.worked += 0.002
        self.scheduler.end(before)
        self.assertTrue(self.scheduler.late())
        self.scheduler.wait(self.piece("waits", self.quiet))
        self.assertTrue(self.scheduler.late())
        self.turn()
        self.assertFalse(self.scheduler.late())

    def test_a_flow_may_wait_in_the_middle_of_its_work(self) -> None:
        self.scheduler.turn(self.noisy).addCallback(lambda _: self.order.append("goes on"))
        self.assertEqual(self.order, [])
        self.turn()
        self.assertEqual(self.order, ["goes on"])

    def test_a_turn_that_nobody_waits_for_any_more_is_nobodys(self) -> None:
        waiting = self.scheduler.turn(self.noisy)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.turn(), [])

    def test_nothing_is_measured_outside_of_turns(self) -> None:
        self.worked += 5.0
        self.assertFalse(self.scheduler.over())

    def test_one_flow_alone_shares_with_nobody_until_another_one_comes(self) -> None:
        self.scheduler.note_request(self.noisy)
        self.scheduler.note_request(self.noisy)
        self.assertFalse(self.scheduler.shared())
        self.scheduler.note_request(self.quiet)
        self.assertTrue(self.scheduler.shared())
        self.scheduler.note_request(self.noisy)
        self.clock.advance(0.15)
        self.scheduler.note_request(self.noisy)
        self.assertTrue(self.scheduler.shared(), "the other one may come again")
        self.clock.advance(0.1)
        self.assertFalse(self.scheduler.shared(), "it has not")
        self.scheduler.wait(self.piece("a", self.noisy))
        self.assertTrue(self.scheduler.shared(), "somebody waits")


class Connections(SynchronousTestCase):
    """For whom a connection is read."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.worked = 0.0
        self.scheduler = ThreadScheduler(self.clock, timer=lambda: self.worked, budget=0.001)

    def test_the_last_flows_are_remembered_and_the_flow_of_a_new_connection_is_dropped(self) -> None:
        level = Level("workload-low", 100)
        made = [Flow(level) for _ in range(6)]
        flows: tuple[Flow, ...] = (self.scheduler.new_connection_flow("10.0.0.1"),)
        for flow in (*made, made[3]):
            flows = self.scheduler.with_flow(flows, flow)
        self.assertEqual(flows, (made[3], made[5], made[4], made[2]))

    def test_it_is_read_for_the_one_whose_turn_comes_first(self) -> None:
        """Leases and lists of the same client on one connection: what the lists have used does not hold up the leases."""
        leases, lists = Flow(Level("leader-election", 25)), Flow(Level("workload-high", 98))
        self.scheduler.charge(lists, 0.05)
        self.assertIs(self.scheduler.first((lists, leases)), leases)
        self.scheduler.charge(leases, 0.05)
        self.assertIs(self.scheduler.first((lists, leases)), lists)

    def test_each_host_has_a_flow_and_all_new_connections_have_one_share(self) -> None:
        crowd, other = self.scheduler.new_connection_flow("10.0.0.1"), self.scheduler.new_connection_flow("10.0.0.2")
        self.assertIs(self.scheduler.new_connection_flow("10.0.0.1"), crowd)
        self.assertIsNot(crowd, other)
        order: list[str] = []

        def work(name: str) -> Callable[[], None]:
            def done() -> None:
                order.append(name)
                self.worked += 0.001

            return done

        known = Flow(Level("workload-low", 240))
        for _ in range(1000):
            self.scheduler.wait(Piece(crowd, work("handshake")))
        for _ in range(100):
            self.scheduler.wait(Piece(known, work("known")))
        self.scheduler.wait(Piece(other, work("other")))
        while self.clock.getDelayedCalls():
            self.clock.advance(0)
        last = len(order) - order[::-1].index("known")
        self.assertLess(order.index("other"), 15)
        self.assertLessEqual(order[:last].count("handshake"), 40)
