"""What is held until replicas have it, over connections that are played by the test."""

from __future__ import annotations

import hiredis
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from kapi.store.confirmation import Confirmation
from kapi.store.connection import Connection, ConnectionFactory
from kapi.store.errors import OutcomeUnknown, StoreUnavailable
from kapi.store.replicas import Replicas
from kapi.store.script import Keys


def played() -> Connection:
    connection = ConnectionFactory().buildProtocol(None)
    connection.makeConnection(StringTransport())
    return connection


class Cycles(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.confirmation = Confirmation(self.clock, Keys.under("kapi"), 1, lambda: "")
        self.fence, self.asker = played(), played()
        attached = Deferred.fromCoroutine(self.confirmation.attach(played(), self.fence, self.asker, disk=False))
        self.successResultOf(attached)
        self.answer(5)

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

    def test_only_what_has_waited_long_is_given_up(self) -> None:
        early: Deferred[int] = Deferred()
        late: Deferred[int] = Deferred()
        read = self.confirmation.revision()
        self.confirmation.hold(early, 6)
        for _ in range(40):  # cycles of 0.1 s
            self.answer(7, replicas=0)
            self.clock.advance(0.1)
        self.confirmation.hold(late, 7)
        for _ in range(12):
            self.answer(7, replicas=0)
            self.clock.advance(0.1)
        self.failureResultOf(early, OutcomeUnknown)
        self.failureResultOf(read, StoreUnavailable)
        self.assertIn("0 of 1 replicas", self.confirmation.problem)
        self.assertNoResult(late)
        self.answer(7)
        self.assertEqual(self.successResultOf(late), 7)
        self.assertEqual(self.confirmation.problem, "")

    def test_a_silent_server_is_given_up_write_by_write(self) -> None:
        early: Deferred[int] = Deferred()
        late: Deferred[int] = Deferred()
        running = self.confirmation.revision()
        self.confirmation.hold(early, 6)
        self.clock.advance(3)
        self.confirmation.hold(late, 7)
        self.clock.advance(3.5)
        self.confirmation.check()
        self.failureResultOf(early, OutcomeUnknown)
        self.failureResultOf(running, StoreUnavailable)
        self.assertNoResult(late)
        self.clock.advance(3)
        self.confirmation.check()
        self.failureResultOf(late, OutcomeUnknown)


class ListedReplicas(SynchronousTestCase):
    """Where Sentinels choose the primary, a cycle ends with what the primary says of its replicas."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.fence = played()
        self.replicas = Replicas(self.clock, lambda _: Deferred())
        self.confirmation = Confirmation(self.clock, Keys.under("kapi"), 1, lambda: "", self.replicas)
        attached = Deferred.fromCoroutine(self.confirmation.attach(played(), self.fence, played(), disk=False))
        self.successResultOf(attached)
        self.answer(5)

    def answer(self, revision: int, *gone: int) -> None:
        self.assertEqual(len(self.fence.pending), 4, "no cycle runs")
        places = [number for number in (2, 3) if number not in gone]
        listed = b"".join(b"*3\r\n$8\r\n10.0.0.%d\r\n$4\r\n6379\r\n$1\r\n9\r\n" % number for number in places)
        fence = hiredis.pack_command((b"%d" % revision,))[4:]
        self.fence.dataReceived(fence + b":1\r\n:%d\r\n" % len(places))
        self.fence.dataReceived(b"*3\r\n$6\r\nmaster\r\n:9\r\n*%d\r\n" % len(places) + listed)

    def test_nothing_is_confirmed_while_one_that_left_may_have_been_promoted(self) -> None:
        write: Deferred[int] = Deferred()
        self.confirmation.hold(write, 6)
        self.answer(6, 3)
        self.assertNoResult(write)
        self.clock.advance(3.1)
        self.answer(6, 3)
        self.assertEqual(self.successResultOf(write), 6)
        self.assertEqual(self.confirmation.problem, "")

    def test_all_that_keep_step_are_waited_for(self) -> None:
        self.fence.transport.clear()
        self.confirmation.hold(Deferred(), 6)
        self.assertIn(b"WAIT\r\n$1\r\n2\r\n", self.fence.transport.value())

    def test_one_that_leaves_while_nothing_is_written_is_seen_then(self) -> None:
        self.confirmation.check()
        self.fence.dataReceived(b"*3\r\n$6\r\nmaster\r\n:9\r\n*0\r\n")
        self.assertIn("may have been promoted", self.replicas.doubt())
        self.clock.advance(4)
        write: Deferred[int] = Deferred()
        self.confirmation.hold(write, 6)
        self.answer(6, 2, 3)
        self.assertEqual(self.successResultOf(write), 6)
