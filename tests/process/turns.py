"""Slices under a clock, turn by turn."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.checkpoint import checkpoint
from kapi.process import slices
from kapi.process.slices import Slices

EVERY = -1.0  # a length with which each checkpoint suspends


class Turns(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(slices, "perf_counter", lambda: 0.0)  # what a slow machine takes counts for nothing
        self.clock = Clock()
        self.slices = Slices(self.clock, length=EVERY)
        self.order: list[Any] = []

    def turn(self) -> None:
        """One turn of the reactor: what is scheduled in it is for the next."""
        for call in [call for call in self.clock.calls if call.time <= self.clock.rightNow]:
            if call.active():
                self.clock.calls.remove(call)
                call.called = 1
                call.func()

    def work(self, name: str, times: int) -> str:
        for number in range(times):
            self.order.append(f"{name}{number}")
            checkpoint()
        return name
