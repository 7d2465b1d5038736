"""Bodies of answers: never more than was said, and never a part that passes for the whole."""

from __future__ import annotations

from twisted.internet.error import ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss

from kapi.wire.answer import AnswerTooLarge
from kapi.wire.collected import Collected

WHOLE = Failure(ResponseDone())


class Transport(StringTransport):
    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True


class CollectedTests(SynchronousTestCase):
    def collect(self, collected: Collected, *parts: bytes, end: Failure | None = None) -> Transport:
        transport = Transport()
        collected.makeConnection(transport)
        for part in parts:
            collected.dataReceived(part)
        if end is not None:
            collected.connectionLost(end)
        return transport

    def test_a_body_is_its_parts(self) -> None:
        collected = Collected(6)
        transport = self.collect(collected, b"abc", b"def", end=WHOLE)
        self.assertEqual((self.successResultOf(collected.done), collected.size), (b"abcdef", 6))
        self.assertFalse(transport.aborted)

    def test_one_byte_too_many_ends_the_connection(self) -> None:
        collected = Collected(6)
        transport = self.collect(collected, b"abcdef", b"g", b"h", end=Failure(ConnectionLost()))
        self.failureResultOf(collected.done, AnswerTooLarge)
        self.assertTrue(transport.aborted)

    def test_a_body_that_breaks_off_is_none(self) -> None:
        for end in (ConnectionLost(), PotentialDataLoss()):
            collected = Collected(6)
            self.collect(collected, b"abc", end=Failure(end))
            self.failureResultOf(collected.done, type(end))

    def test_the_beginning_is_not_waited_for_longer_than_needed(self) -> None:
        for parts in ([b"abcd"], [b"abc", b"defg"], [b"a", b"bcd", b"e"]):
            collected = Collected(4, cut=True)
            transport = self.collect(collected, *parts)
            self.assertEqual(self.successResultOf(collected.done), b"abcd")
            self.assertTrue(transport.aborted)

    def test_of_a_beginning_counts_what_has_come(self) -> None:
        collected = Collected(4, cut=True)
        self.collect(collected, b"ab", end=Failure(ConnectionLost()))
        self.assertEqual(self.successResultOf(collected.done), b"ab")
