"""What is done again and again goes on after an error, which the log tells once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

import kapi
from kapi.process.timers import Repeated


class Repeating(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.calls = 0
        self.results: list[Any] = []

    def repeat(self, *results: Any) -> Repeated:
        self.results = list(results)
        repeated = Repeated(self.call, self.clock, "the test")
        repeated.start(5.0)
        return repeated

    def call(self) -> Any:
        self.calls += 1
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return result

    def pass_calls(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(5.0)

    def test_an_error_is_told_once_and_the_next_call_comes(self) -> None:
        full = OSError(24, "Too many open files")
        repeated = self.repeat(full, full, full, None, full)
        self.pass_calls(3)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.pass_calls(3)
        self.assertEqual((self.calls, len(self.flushLoggedErrors(OSError))), (6, 1))
        repeated.stop()
        self.pass_calls(2)
        self.assertEqual((self.calls, self.clock.getDelayedCalls()), (6, []))
        repeated.stop()

    def test_one_that_takes_time_is_waited_for(self) -> None:
        slow: Deferred[None] = Deferred()
        self.repeat(slow)
        self.pass_calls(3)
        self.assertEqual(self.calls, 1)
        slow.errback(MemoryError())
        self.pass_calls(1)
        self.assertEqual((self.calls, len(self.flushLoggedErrors(MemoryError))), (2, 1))

    def test_nobody_uses_one_that_an_error_ends(self) -> None:
        root = Path(kapi.__file__).parent
        found = {
            str(file.relative_to(root))
            for file in root.rglob("*.py")
            if re.search(r"\bLoopingCall\(", file.read_text())
        }
        self.assertEqual(found, {"process/timers.py"})
