"""What is held until replicas have it, over connections that are played by the test."""

from __future__ import annotations

import hiredis
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from kapi.store.confirmation import Confirmation
from kapi.store.connection import Connection, ConnectionFactory
from kapi.store.errors import OutcomeUnknown
from kapi.store.script import Keys


class Cycles(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.confirmation = Confirmation(self.clock, Keys.under("kapi"), 1, lambda: "")
        self.fence, self.asker = self.connection(), self.connection()
        attached = Deferred.fromCoroutine(
            self.confirmation.attach(self.connection(), self.fence, self.asker, disk=False)
        )
        self.successResultOf(attached)
        self.answer(5)

    def connection(self) -> Connection:
        connection = ConnectionFactory().buildProtocol(None)
        connection.makeConnection(StringTransport())
        return connection

    def answer(self, revision: int | bytes, replicas: int = 1) -> None:
        """One cycle: what the fence says, and how many replicas have it."""
        self.assertEqual(len(self.fence.pending), 2, "no cycle runs")
        fence = hiredis.pack_command((b"%d" % revision,))[4:] if isinstance(revision, int) else revision
        self.fence.dataReceived(fence + b":%d\r\n" % replicas)

    def test_reads_of_a_cycle_get_its_revision(self) -> None:
        """Also when the first of them asks again at once, which begins the next cycle."""
        reads: list[Deferred[int]] = []
        running = self.confirmation.revision()
        for _ in range(2):
            reads.append(self.confirmation.revision())
            reads[-1].addCallback(lambda revision: (revision, self.confirmation.revision())[0])
        self.answer(5)
        self.assertEqual(self.successResultOf(running), 5)
        self.answer(9)
        self.assertEqual([self.successResultOf(read) for read in reads], [9, 9])

    def test_one_that_was_answered_elsewhere_keeps_nobody_waiting(self) -> None:
        writes: list[Deferred[int]] = [Deferred(), Deferred()]
        self.confirmation.revision()
        for number, write in enumerate(writes, 6):
            self.confirmation.hold(write, number)
        writes[0].errback(OutcomeUnknown("its connection broke"))
        self.answer(5)
        self.answer(7)
        self.failureResultOf(writes[0], OutcomeUnknown)
        self.assertEqual(self.successResultOf(writes[1]), 7)

    def test_a_server_that_refuses_the_fence_says_why(self) -> None:
        write: Deferred[int] = Deferred()
        self.confirmation.hold(write, 6)
        for _ in range(8):
            self.clock.advance(1)
            if self.fence.pending:
                self.answer(b"-MISCONF the disk is full\r\n")
        self.assertIn("does not take the fence: MISCONF the disk is full", self.confirmation.problem)
        self.failureResultOf(write, OutcomeUnknown)
