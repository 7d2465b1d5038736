"""How full a level was, and for how long."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kapi.flowcontrol.fair_queues import FairQueues
from kapi.flowcontrol.queue import Request
from kapi.flowcontrol.usage import DEMAND, REQUESTS, SEATS, Ratios, Usage


def seconds(ratios: Ratios, bounds: tuple[float, ...]) -> dict[float, float]:
    """By bucket, those of no time left out; the last bucket is told as infinity."""
    rows = zip((*bounds, float("inf")), ratios.row, strict=False)
    return {bound: count / 1e9 for bound, count in rows if count}


def test_each_state_counts_for_as_long_as_it_lasted() -> None:
    clock = Clock()
    queues = FairQueues(clock, 4, queues=2, hand_size=1, queue_length_limit=5)
    queues.usage.limits(clock.seconds(), 4, queues.capacity)
    clock.advance(1)  # empty
    first, second = Request("s", 1, 2), Request("s", 1, 2)
    queues.admit(first, 60)
    clock.advance(3)  # half of the seats
    queues.admit(second, 60)
    waiting = queues.admit(Request("s", 1, 1), 60)
    assert isinstance(waiting, Deferred)
    clock.advance(5)  # full, and one waits
    queues.usage.advance(clock.seconds())
    usage = queues.usage
    assert seconds(usage.seats, SEATS) == {0.0: 1, 0.5: 3, 1.0: 5}
    assert seconds(usage.executing, REQUESTS) == {0.0: 1, 0.25: 3, 0.5: 5}
    assert seconds(usage.waiting, REQUESTS) == {0.0: 4, 0.1: 5}
    assert seconds(usage.demand, DEMAND) == {0.2: 1, 0.6: 3, 1.4: 5}
    assert usage.seats.row[-1] == 0.5 * 3e9 + 1.0 * 5e9


def test_what_was_before_another_limit_is_measured_by_the_old_one() -> None:
    usage = Usage(0.0)
    usage.limits(0.0, 10, 100)
    usage.change(0.0, (5, 0, 0, 0))
    usage.limits(2.0, 5, 100)
    usage.advance(3.0)
    assert seconds(usage.seats, SEATS) == {0.5: 2, 1.0: 1}


def test_the_states_between_two_looks_are_bounded() -> None:
    usage = Usage(0.0)
    for number in range(5_000):
        usage.change(float(number), (0, 0, number, 0))
    assert len(usage._changes) <= 1024
    usage.advance(5_000.0)
    assert sum(usage.waiting.row[:-1]) == 5_000 * 1e9


def test_the_demand_of_a_period() -> None:
    usage = Usage(0.0)
    usage.change(0.0, (3, 3, 1, 4))
    usage.change(5.0, (0, 0, 0, 0))
    usage.sample(10.0)
    wanted = usage.wanted
    assert (wanted.average, wanted.deviation, wanted.high, wanted.smoothed) == (2, 2, 4, 4)
    usage.sample(20.0)
    assert (wanted.average, wanted.high) == (0, 0)
    assert wanted.smoothed == pytest.approx(0.977 * 4)


def test_a_peak_counts_however_short_and_what_lasts_is_the_next_periods_as_well() -> None:
    usage = Usage(0.0)
    usage.change(1.0, (7, 7, 0, 7))
    usage.change(1.0, (2, 2, 0, 2))
    usage.sample(2.0)
    assert usage.wanted.high == 7
    usage.sample(3.0)
    assert (usage.wanted.high, usage.wanted.average) == (2, 2)
