"""The reactor's timers run by the monotonic clock: setting the time of day neither holds them up nor fires them."""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.selectreactor import SelectReactor
from twisted.trial.unittest import TestCase

from kapi import tap
from kapi.process.reactor import use_monotonic_clock


class MonotonicClock(TestCase):
    def setUp(self) -> None:
        self.reactor: Any = SelectReactor()
        self.addCleanup(self.reactor.disconnectAll)
        self.wall = 1_800_000_000.0
        self.reactor.seconds = lambda: self.wall

    def test_a_step_of_the_time_of_day_does_not_touch_timers(self) -> None:
        fired: list[str] = []
        self.reactor.callLater(3600, fired.append, "planned before")
        use_monotonic_clock(self.reactor)
        self.reactor.callLater(0, fired.append, "now")
        self.reactor.callLater(3600, fired.append, "in an hour")
        self.wall += 3 * 3600
        self.reactor.runUntilCurrent()
        self.assertEqual(fired, ["now"])
        self.wall -= 9 * 3600
        self.reactor.callLater(0, fired.append, "after a step back")
        self.reactor.runUntilCurrent()
        self.assertEqual(fired, ["now", "after a step back"])
        for call in self.reactor.getDelayedCalls():
            self.assertLess(abs(call.getTime() - time.monotonic() - 3600), 60)
            call.reset(0)
        self.reactor.runUntilCurrent()
        self.assertEqual(len(fired), 4)

    def test_every_way_of_starting_sets_it(self) -> None:
        with self.assertRaises(SystemExit):
            tap.make_service_from_flags(["--no-such-flag"], self.reactor)
        self.assertIs(self.reactor.seconds, time.monotonic)
        use_monotonic_clock(self.reactor)
        self.assertIs(self.reactor.seconds, time.monotonic)
