"""Memory is given back when the process has grown and much of it is free."""

from __future__ import annotations

import ctypes
import linecache
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.process.heap import Allocator, MemoryReturn

MB = 1024 * 1024


class Fake(Allocator):
    def __init__(self) -> None:
        self.size, self.unused, self.trimmed = 100 * MB, 0, 0
        self.heap = self.size

    def resident(self) -> int:
        return self.size

    def free(self) -> int:
        return self.unused

    def used(self) -> int:
        return self.heap - self.unused

    def reuse(self) -> None:
        pass

    def trim(self) -> None:
        self.trimmed += 1
        self.size -= self.unused


class Pool:
    """Runs at once what is for a thread."""

    def callInThreadWithCallback(self, done: Any, function: Any, *arguments: Any, **named: Any) -> None:
        done(True, function(*arguments, **named))


class Returns(SynchronousTestCase):
    def setUp(self) -> None:
        clock: Any = Clock()
        clock.getThreadPool = Pool
        clock.callFromThread = lambda function, *arguments: function(*arguments)
        self.clock, self.allocator = clock, Fake()
        self.memory = MemoryReturn(clock, self.allocator)
        self.memory.start()
        self.addCleanup(self.memory.stop)
        clock.advance(5)

    def burst(self, size: int, unused: int) -> int:
        self.allocator.size, self.allocator.unused = size * MB, unused * MB
        self.allocator.heap = max(self.allocator.heap, self.allocator.size)
        self.clock.advance(5)
        return self.allocator.trimmed

    def test_the_sources_of_logged_tracebacks_are_dropped(self) -> None:
        """Python keeps all lines of each file; those of generated code are in no file."""
        generated = "<generated for a test>"
        linecache.cache[generated] = (5, None, ["pass\n"], generated)
        self.addCleanup(linecache.cache.pop, generated, None)
        traceback.format_stack()
        self.assertIn(__file__, linecache.cache)
        self.clock.advance(5)
        self.assertNotIn(__file__, linecache.cache)
        self.assertIn(generated, linecache.cache)

    def test_after_a_burst(self) -> None:
        self.assertEqual(self.burst(1000, 880), 1)
        self.assertEqual(self.allocator.size, 120 * MB)

    def test_after_a_look_without_a_descriptor(self) -> None:
        with patch.object(self.allocator, "resident", side_effect=OSError(24, "Too many open files")):
            self.burst(1000, 880)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(self.burst(1000, 880), 1)

    def test_what_is_in_use_stays(self) -> None:
        self.assertEqual(self.burst(1000, 40), 0)

    def test_little_is_not_worth_it(self) -> None:
        self.assertEqual(self.burst(100, 7), 0)

    def test_each_burst_is_one_time(self) -> None:
        """Free memory that was returned is still free to the library."""
        self.assertEqual([self.burst(1000, 880), self.burst(120, 880), self.burst(120, 880)], [1, 1, 1])
        self.assertEqual(self.burst(900, 100), 1, "in use again")
        self.assertEqual(self.burst(900, 880), 2)

    def test_a_burst_between_two_looks(self) -> None:
        """As much is free as before; what was used meanwhile was got from the system anew."""
        self.assertEqual(self.burst(1000, 880), 1)
        self.allocator.size = 400 * MB
        self.allocator.trim = self.trim_to(120)  # type: ignore[method-assign]
        self.clock.advance(5)
        self.assertEqual((self.allocator.trimmed, self.allocator.size), (2, 120 * MB))
        self.clock.advance(50)
        self.assertEqual(self.allocator.trimmed, 2)

    def test_growth_that_cannot_be_returned_is_tried_once(self) -> None:
        """Python has memory of its own beside the library's heap."""
        self.assertEqual(self.burst(1000, 880), 1)
        self.allocator.trim = self.trim_to(400)  # type: ignore[method-assign]
        self.allocator.size = 400 * MB
        self.clock.advance(50)
        self.assertEqual(self.allocator.trimmed, 2)

    def trim_to(self, size: int) -> Callable[[], None]:
        def trim() -> None:
            self.allocator.trimmed += 1
            self.allocator.size = size * MB

        return trim

    def test_what_is_freed_while_memory_is_returned_is_returned_next_time(self) -> None:
        trim = self.allocator.trim

        def trim_and_free() -> None:
            trim()
            self.allocator.unused += 30 * MB

        self.allocator.trim = trim_and_free  # type: ignore[method-assign]
        self.assertEqual(self.burst(1000, 880), 1)
        self.clock.advance(5)
        self.assertEqual(self.allocator.trimmed, 2)

    def test_the_library_of_this_machine_answers(self) -> None:
        allocator = Allocator()
        self.assertGreater(allocator.resident(), MB)
        self.assertGreaterEqual(allocator.free(), 0)
        self.assertGreaterEqual(allocator.used(), 0)
        allocator.trim()


_MAPPED = """
from kapi.process.heap import Allocator
allocator = Allocator()
{prepare}
before = allocator._usage().hblks
block = b"x" * 400_000
print(allocator._usage().hblks - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not glibc")
@pytest.mark.parametrize("prepare, mapped", [("", "1"), ("allocator.reuse()", "0")])
def test_blocks_that_answers_are_written_in_come_out_of_the_heap(prepare: str, mapped: str) -> None:
    code = _MAPPED.format(prepare=prepare)
    # glibc's first threshold, which it raises by itself when a larger block is given back during the imports
    settings = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == mapped
