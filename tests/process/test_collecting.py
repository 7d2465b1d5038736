"""Everything is looked at for garbage when little is there to be looked at, and in the end in any case."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.process.heap import Collector, Heap


class Fake(Heap):
    def __init__(self) -> None:
        self.count, self.made, self.frozen, self.collected = 0, 400_000, 0, 0
        self.looked: list[int] = []  # blocks that each collection had to look at
        self.looked_at_start = 0
        self.bytes = 50_000_000

    def used(self) -> int:
        return self.bytes

    def take_over(self) -> None:
        """Python looks at once at what was made while it did not collect."""
        self.looked_at_start = self.made - self.frozen

    def collections(self) -> int:
        return self.count

    def blocks(self) -> int:
        return self.made

    def collect(self) -> None:
        self.collected += 1
        self.looked.append(self.made - self.frozen)
        self.count = 0

    def freeze(self) -> None:
        self.frozen = self.made

    def unfreeze(self) -> None:
        self.frozen = 0


class Looks(SynchronousTestCase):
    def setUp(self) -> None:
        clock, self.heap = Clock(), Fake()
        collector = Collector(clock, self.heap)
        collector.start()
        self.addCleanup(collector.stop)
        self.clock, self.collector = clock, collector

    def seconds(self, number: int, *, work: int = 1000, blocks: int) -> int:
        """The collections after as many seconds of work, and with so many blocks in use."""
        for _ in range(number // 5):
            self.heap.count += work
            self.heap.made = blocks
            self.clock.advance(5)
        return self.heap.collected

    def test_what_a_start_has_made_is_not_looked_at(self) -> None:
        self.assertEqual((self.heap.frozen, self.heap.looked_at_start), (400_000, 0))

    def test_garbage_goes_while_there_is_little_to_look_at(self) -> None:
        self.assertEqual(self.seconds(10, blocks=420_000), 2)
        self.assertEqual(self.heap.looked, [20_000, 20_000])

    def test_a_server_with_nothing_to_do_collects_nothing(self) -> None:
        self.assertEqual(self.seconds(600, work=0, blocks=420_000), 0)

    def test_what_a_burst_leaves_is_collected_by_a_server_that_does_nothing_else(self) -> None:
        self.heap.bytes = 150_000_000
        self.assertEqual(self.seconds(60, work=0, blocks=420_000), 1, "what has come is looked at once")
        self.heap.bytes = 90_000_000  # a part was garbage
        self.assertEqual(self.seconds(60, work=0, blocks=420_000), 2)
        self.heap.bytes = 90_500_000
        self.assertEqual(self.seconds(60, work=0, blocks=420_000), 2)

    def test_large_bodies_on_their_way_are_waited_for(self) -> None:
        self.assertEqual(self.seconds(30, blocks=900_000), 0)
        self.assertEqual(self.seconds(5, blocks=420_000), 1)
        self.assertEqual(self.seconds(50, blocks=900_000), 1, "patience begins anew")

    def test_what_has_come_to_stay_is_looked_at_once(self) -> None:
        self.assertEqual(self.seconds(60, blocks=700_000), 1)
        self.assertEqual(self.seconds(5, blocks=710_000), 2)
        self.assertEqual(self.heap.looked, [300_000, 10_000])

    def test_what_would_take_long_to_look_at_is_kept_without_a_look(self) -> None:
        """Until everything has doubled: half a million blocks are 0.1 s in which nobody is served."""
        self.assertEqual(self.seconds(60, blocks=1_300_000), 0)
        self.seconds(5, blocks=1_310_000)
        self.assertEqual(self.heap.looked, [10_000])
        self.seconds(60, blocks=2_000_000)
        self.assertEqual(self.heap.looked, [10_000, 2_000_000])

    def test_much_that_is_known_to_be_garbage_is_collected_at_once(self) -> None:
        """Else it would pass for bodies on their way."""
        self.heap.made = 900_000
        for blocks, collected in ((150_000, 0), (60_000, 1), (150_000, 1), (60_000, 2)):
            self.collector.expect(blocks)
            self.assertEqual(self.heap.collected, collected)
        self.assertEqual(self.heap.looked, [500_000, 500_000])

    def test_garbage_that_a_collection_has_found_is_expected_no_more(self) -> None:
        self.collector.expect(150_000)
        self.assertEqual(self.seconds(5, blocks=420_000), 1)
        self.collector.expect(150_000)
        self.assertEqual(self.heap.collected, 1)

    def test_what_is_known_to_be_garbage_may_be_among_what_was_frozen(self) -> None:
        self.assertEqual(self.seconds(60, blocks=1_300_000), 0)
        self.collector.expect(250_000)
        self.assertEqual((self.heap.looked, self.heap.frozen), ([1_300_000], 1_300_000))

    def test_bodies_that_were_frozen_and_have_gone_make_no_room_for_others(self) -> None:
        self.seconds(60, blocks=5_000_000)
        collected = self.seconds(5, blocks=420_000)
        self.assertEqual(self.seconds(30, blocks=900_000), collected)

    def test_everything_is_looked_at_whenever_it_has_doubled(self) -> None:
        """Else what has become garbage after it was frozen would stay for ever."""
        for minute in range(1, 6):
            self.seconds(60, blocks=400_000 + minute * 300_000)
        self.assertEqual(self.heap.looked, [300_000, 300_000, 1_300_000, 300_000, 300_000])


class Circle:
    def __init__(self) -> None:
        self.itself: Any = self


class Real(SynchronousTestCase):
    """With Python's own collector."""

    def test_a_circle_that_has_become_old(self) -> None:
        self.addCleanup(gc.set_threshold, *gc.get_threshold())
        self.addCleanup(gc.unfreeze)
        clock = Clock()
        collector = Collector(clock)
        collector.start()
        self.addCleanup(collector.stop)
        circle = Circle()
        gc.collect()  # it survives, and is old from now on
        gone = weakref.ref(circle)
        del circle
        for _ in range(60):
            gc.collect(1)
        self.assertIsNotNone(gone())
        clock.advance(5)
        self.assertIsNone(gone())
