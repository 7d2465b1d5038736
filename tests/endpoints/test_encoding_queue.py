"""Encodings of watch events that take long, one after the other."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints.watch_form import EncodingQueue


class Encodings(SynchronousTestCase):
    def setUp(self) -> None:
        self.queue = EncodingQueue()
        self.begun: list[Deferred[bytes | None]] = []

    def begin(self) -> Deferred[bytes | None]:
        self.begun.append(Deferred())
        return self.begun[-1]

    def test_the_next_one_begins_when_the_one_before_has_ended(self) -> None:
        first, second = self.queue.run(self.begin), self.queue.run(self.begin)
        self.assertEqual(len(self.begun), 1)
        self.begun[0].callback(b"1")
        self.assertEqual((self.successResultOf(first), len(self.begun)), (b"1", 2))
        self.begun[1].callback(None)
        self.assertIsNone(self.successResultOf(second))

    def test_a_failure_is_its_own(self) -> None:
        first, second = self.queue.run(self.begin), self.queue.run(self.begin)
        self.begun[0].errback(Failure(ValueError("broken")))
        self.failureResultOf(first, ValueError)
        self.begun[1].callback(b"2")
        self.assertEqual(self.successResultOf(second), b"2")

    def test_a_client_that_leaves_holds_up_nobody(self) -> None:
        first, second, third = (self.queue.run(self.begin) for _ in range(3))
        second.cancel()
        first.cancel()
        for gone in (first, second):
            self.failureResultOf(gone, CancelledError)
        self.assertEqual(len(self.begun), 2)
        self.begun[1].callback(b"3")
        self.assertEqual(self.successResultOf(third), b"3")

    def test_thousands_that_end_at_once(self) -> None:
        first = self.queue.run(self.begin)
        others = [self.queue.run(lambda: succeed(b"made")) for _ in range(5000)]
        self.begun[0].callback(b"made")
        self.assertEqual({self.successResultOf(each) for each in (first, *others)}, {b"made"})
