"""Work queues hand out every key that was added, one task a key, and come back to what failed."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase

from kapi.machinery import status
from kapi.machinery.checkpoint import checkpoint, commit, in_slices
from kapi.process.slices import Slices
from kapi.runtime.sliced import run_by
from kapi.runtime.workqueue import MAX_TURN_SECONDS, METRICS, RETRY_BURST, RETRY_RATE, WorkQueue
from kapi.store.errors import StoreUnavailable


class WorkQueues(TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.seen: list[str] = []
        self.gates: dict[str, Deferred[None]] = {}

    def queue(self, workers: int = 2) -> WorkQueue[str]:
        async def handle(key: str) -> None:
            self.seen.append(key)
            gate = self.gates.get(key)
            if gate is not None:
                await gate

        return WorkQueue(self.clock, "test", handle, workers)

    def test_a_key_added_twice_is_handled_once(self) -> None:
        queue = self.queue()
        queue.add("a")
        queue.add("a")
        self.clock.advance(0)
        self.assertEqual(self.seen, ["a"])
        self.assertTrue(queue.idle)

    def test_a_key_that_comes_while_it_is_handled_is_handled_again_afterwards(self) -> None:
        queue = self.queue()
        gate = self.gates["a"] = Deferred()
        queue.add("a")
        self.clock.advance(0)
        queue.add("a")
        self.clock.advance(0)
        self.assertEqual(self.seen, ["a"])
        del self.gates["a"]
        gate.callback(None)
        self.clock.advance(0)
        self.assertEqual(self.seen, ["a", "a"])

    def test_a_key_that_its_own_handler_adds_is_not_handled_twice_at_once(self) -> None:
        gates: list[Deferred[None]] = []

        async def handle(key: str) -> None:
            if not gates:
                queue.add(key)
            gates.append(Deferred())
            await gates[-1]

        queue = WorkQueue(self.clock, "test", handle, 2)
        queue.add("a")
        self.clock.advance(0)
        self.assertEqual(len(gates), 1)
        gates[0].callback(None)
        self.clock.advance(0)
        self.assertEqual(len(gates), 2)
        gates[1].callback(None)
        self.assertTrue(queue.idle)

    def test_no_more_keys_run_than_there_are_workers(self) -> None:
        queue = self.queue(workers=1)
        gate = self.gates["a"] = Deferred()
        queue.add("a")
        queue.add("b")
        self.clock.advance(0)
        self.assertEqual(self.seen, ["a"])
        gate.callback(None)
        self.clock.advance(0)
        self.assertEqual(self.seen, ["a", "b"])

    def test_what_fails_comes_again_ever_later(self) -> None:
        times: list[float] = []

        async def fail(key: str) -> None:
            times.append(self.clock.seconds())
            raise status.StatusError("no")

        queue = WorkQueue(self.clock, "test", fail)
        queue.add("a")
        self.clock.pump([0.01] * 400)
        waits = [later - sooner for sooner, later in zip(times, times[1:], strict=False)]
        self.assertGreaterEqual(len(waits), 3)
        self.assertEqual(waits, sorted(waits))
        queue.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_what_lies_outside_the_program_is_no_traceback_for_each_key(self) -> None:
        """The store says itself that it is away, and a missing file is one line; other errors are told whole."""
        lines: list[LogEvent] = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)

        async def handle(key: str) -> None:
            raise {
                "a": StoreUnavailable("away"),
                "b": ValueError("wrong"),
                "c": FileNotFoundError(2, "gone", "ca.crt"),
            }[key]

        queue = WorkQueue(self.clock, "test", handle)
        for key in ("a", "b", "c"):
            queue.add(key)
        self.clock.pump([0, 10, 10])
        told = [line for line in lines if "log_failure" in line]
        self.assertEqual({line["key"] for line in told}, {"b"})
        lost = [line for line in lines if line.get("key") == "c"]
        self.assertEqual({(line["log_level"].name, "ca.crt" in formatEvent(line)) for line in lost}, {("error", True)})
        self.assertGreaterEqual(len(lost), 2)  # it is tried again
        self.assertGreaterEqual(len(self.flushLoggedErrors(ValueError)), 2)
        queue.stop()

    def test_a_handler_says_when_it_wants_the_key_again(self) -> None:
        async def handle(key: str) -> float:
            self.seen.append(key)
            return 5.0

        queue = WorkQueue(self.clock, "test", handle)
        queue.add("a")
        self.clock.pump([0, 4])
        self.assertEqual(self.seen, ["a"])
        self.clock.pump([1, 0])
        self.assertEqual(self.seen, ["a", "a"])
        queue.stop()

    def test_many_failures_come_again_at_a_bounded_rate(self) -> None:
        """Whatever makes all keys fail is not asked by all of them at once, ever and ever again."""
        count = 0

        async def fail(key: int) -> None:
            nonlocal count
            count += 1
            raise status.StatusError("no")

        queue = WorkQueue(self.clock, "test", fail, workers=1000)
        for key in range(1000):
            queue.add(key)
        self.clock.advance(0)
        self.assertEqual(count, 1000)
        self.clock.pump([0.05] * 200)
        self.assertLess(count - 1000, RETRY_BURST + 10 * RETRY_RATE + 10)
        self.assertGreater(count - 1000, RETRY_BURST)
        queue.stop()

    def test_a_key_whose_handler_was_cancelled_by_something_else_comes_again(self) -> None:
        gate = self.gates["a"] = Deferred()
        queue = self.queue()
        queue.add("a")
        self.clock.advance(0)
        gate.cancel()
        del self.gates["a"]
        self.clock.pump([0.2, 0])
        self.assertEqual(self.seen, ["a", "a"])

    def test_many_keys_let_others_have_their_turn(self) -> None:
        async def slow(key: int) -> None:
            self.seen.append(str(key))
            self.clock.rightNow += MAX_TURN_SECONDS * 0.6

        queue = WorkQueue(self.clock, "test", slow)
        for key in range(10):
            queue.add(key)
        self.clock.callLater(0, self.seen.append, "other")
        self.clock.advance(0)
        self.assertLess(self.seen.index("other"), 4)
        self.assertEqual(len(self.seen), 11)

    def test_nothing_runs_after_stop(self) -> None:
        queue = self.queue()
        queue.add("a")
        queue.add_after("b", 1)
        queue.stop()
        self.clock.pump([0, 2, 0])
        self.assertEqual(self.seen, [])

    async def test_what_waits_and_runs_is_counted_by_the_queues_name(self) -> None:
        slow: Deferred[float | None] = Deferred()
        calls: list[str] = []

        async def handle(key: str) -> float | None:
            calls.append(key)
            if key == "fails":
                raise status.Conflict("x")
            return await slow

        queue = WorkQueue(self.clock, self.id(), handle, 2)
        for key in ("slow", "fails", "last"):
            queue.add(key)
        self.assertEqual(self.figure("depth"), 3)
        self.clock.advance(2)
        self.assertEqual((self.figure("depth"), calls), (0, ["slow", "fails", "last"]))
        self.clock.advance(3)
        self.assertGreaterEqual(self.figure("longest_running_processor_seconds"), 3.0)
        slow.callback(None)
        self.assertEqual(self.figure("unfinished_work_seconds"), 0)
        self.assertEqual(METRICS.retries.rows[(self.id(),)], 1)
        self.assertGreaterEqual(METRICS.adds.rows[(self.id(),)], 3)
        self.assertGreaterEqual(METRICS.queue_duration.rows[(self.id(),)][-1], 6.0)
        queue.stop()
        self.assertEqual(self.figure("depth"), 0)

    async def test_queues_of_one_name_are_counted_together(self) -> None:
        """As those of one controller in several logical clusters."""
        never: Deferred[float | None] = Deferred()

        async def handle(key: str) -> float | None:
            return await never

        first, second = (WorkQueue(self.clock, self.id(), handle, 1) for _ in range(2))
        for queue in (first, second):
            queue.add("runs")
        self.clock.advance(2)
        for key in ("one", "two", "three"):
            first.add(key)
        self.assertEqual(self.figure("depth"), 3)
        second.add("one")
        self.assertEqual(self.figure("depth"), 4)
        self.clock.advance(1)
        self.assertEqual(self.figure("unfinished_work_seconds"), 2 * self.figure("longest_running_processor_seconds"))
        first.stop()
        self.assertEqual(self.figure("depth"), 1)

    def figure(self, name: str) -> float:
        """A gauge of the queues with this test's name."""
        [family] = [family for family in METRICS.collect() if family.name == f"workqueue_{name}"]
        [value] = [sample.value for sample in family.samples if sample.labels == {"name": self.id()}]
        return value


class SlicedWorkQueues(WorkQueues):
    """The same in slices, and that none of what a handler computes holds the reactor."""

    def setUp(self) -> None:
        super().setUp()
        run_by(self.clock, Slices(self.clock, length=-1).call)  # every checkpoint suspends

    def turn(self, times: int = 1) -> None:
        """Turns of the reactor: what is scheduled in one is for the next."""
        for _ in range(times):
            for call in [call for call in self.clock.calls if call.time <= self.clock.rightNow]:
                self.clock.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)

    def walks(self, *, before: int = 0, after: int = 0, gate: Deferred[None] | None = None) -> WorkQueue[str]:
        """A handler that meets so many checkpoints, waits, and meets more of them."""

        async def handle(key: str) -> None:
            for step in range(before):
                self.seen.append(f"{key}{step}")
                checkpoint()
            if gate is not None:
                await gate
            await in_slices
            for step in range(before, before + after):
                self.seen.append(f"{key}{step}")
                checkpoint()

        return WorkQueue(self.clock, "walks", handle, 2)

    def test_others_have_their_turn_while_a_handler_computes(self) -> None:
        gate: Deferred[None] = Deferred()
        queue = self.walks(before=2, after=2, gate=gate)
        queue.add("a")
        self.turn()
        self.assertEqual(self.seen, ["a0"])
        self.turn()
        self.assertEqual(self.seen, ["a0", "a1"])
        self.turn(3)
        self.assertEqual(self.seen, ["a0", "a1"])
        self.assertFalse(queue.idle)
        gate.callback(None)
        self.assertEqual(self.seen, ["a0", "a1", "a2"])
        self.turn(3)
        self.assertEqual(self.seen, ["a0", "a1", "a2", "a3"])
        self.assertTrue(queue.idle)

    def test_two_keys_are_computed_turn_by_turn(self) -> None:
        queue = self.walks(before=2)
        queue.add("a")
        queue.add("b")
        self.turn(8)
        self.assertEqual(self.seen, ["a0", "b0", "a1", "b1"])
        self.assertTrue(queue.idle)

    def test_a_failure_after_a_wait_is_the_handlers(self) -> None:
        async def handle(key: str) -> None:
            self.seen.append(key)
            try:
                await self.gates[key]
            except ValueError:
                self.seen.append("caught")
                checkpoint()
                raise status.Conflict("x") from None

        gate = self.gates["a"] = Deferred()
        queue = WorkQueue(self.clock, "test", handle)
        queue.add("a")
        self.turn()
        gate.errback(ValueError())
        self.gates["a"] = Deferred()
        self.clock.pump([0, 0, 0.2, 0])
        self.assertEqual(self.seen, ["a", "caught", "a"])
        queue.stop()

    def test_a_computation_ends_when_the_queue_stops(self) -> None:
        queue = self.walks(before=5)
        queue.add("a")
        self.turn()
        queue.stop()
        self.turn(8)
        self.assertEqual(self.seen, ["a0"])

    def test_what_others_have_seen_something_of_is_brought_to_its_end(self) -> None:
        async def handle(key: str) -> None:
            commit()
            for step in range(3):
                self.seen.append(f"{key}{step}")
                checkpoint()

        queue = WorkQueue(self.clock, "test", handle)
        queue.add("a")
        self.turn()
        queue.stop()
        self.turn(8)
        self.assertEqual(self.seen, ["a0", "a1", "a2"])
