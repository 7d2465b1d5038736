"""A collection is deleted with several deletions under way, and none of them is forgotten."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, execute
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery import status
from kapi.options.options import Options
from kapi.registry.delete_collection import delete_collection


class Deletions:
    """Deletions that end when the test says so."""

    def __init__(self) -> None:
        self.running: dict[int, Deferred[None]] = {}
        self.most = 0

    def begin(self, entry: Any) -> Deferred[None]:
        self.running[entry] = Deferred()
        self.most = max(self.most, len(self.running))
        return self.running[entry]

    def end(self, entry: int, outcome: Any = None) -> None:
        self.running.pop(entry).callback(outcome)

    def fail(self, entry: int, error: Exception) -> None:
        self.running.pop(entry).errback(error)


class Collections(SynchronousTestCase):
    def setUp(self) -> None:
        self.deletions = Deletions()

    def start(self, count: int, at_once: int = 64) -> Deferred[None]:
        entries: Any = range(count)
        return Deferred.fromCoroutine(delete_collection(entries, self.deletions.begin, at_once, execute))

    def test_many_are_under_way_but_not_all(self) -> None:
        done = self.start(1000)
        for entry in range(1000):
            self.deletions.end(entry)
        self.successResultOf(done)
        self.assertEqual(self.deletions.most, 64)

    def test_so_many_as_a_flag_says(self) -> None:
        done = self.start(10, at_once=1)
        for entry in range(10):
            self.assertEqual(list(self.deletions.running), [entry])
            self.deletions.end(entry)
        self.successResultOf(done)
        for flags, workers in ((["--delete-collection-workers=3"], 3), ([], None)):
            self.assertEqual(Options.from_command_line(flags).storage.delete_workers, workers)

    def test_what_is_gone_already_is_passed_over(self) -> None:
        done = self.start(3)
        self.deletions.fail(1, status.NotFound("gone"))
        self.deletions.end(0)
        self.assertNoResult(done)
        self.deletions.end(2)
        self.successResultOf(done)

    def test_an_error_ends_it_and_what_was_begun_goes_on(self) -> None:
        done = self.start(100)
        self.deletions.fail(1, status.Forbidden("no"))
        self.assertNoResult(done)
        self.deletions.end(0)
        self.failureResultOf(done, status.Forbidden)
        self.assertEqual(sorted(self.deletions.running), list(range(2, 65)))
        self.deletions.fail(2, status.Forbidden("no"))  # nobody is left to be told: it is no unhandled error
        for entry in range(3, 65):
            self.deletions.end(entry)
        self.assertEqual(self.deletions.running, {})
