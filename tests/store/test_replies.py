"""Entries and replies, one by one: what is no change, and what breaks a connection."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted
from twisted.internet.testing import StringTransport
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.store.connection import Connection, ConnectionFactory, ConnectionGone
from kapi.store.entries import OBJECTS, ForeignEntry, Skipped, counter_of, read_entry, read_halves, read_value
from kapi.store.errors import OutcomeUnknown
from kapi.store.feed import granted, written
from kapi.store.interface import Change, StoredObject
from kapi.store.script import ALLOWED_SHA, DELETIONS_SHA, SCRIPTS, Keys
from kapi.store.writing import Replies, Writing


class Entries(SynchronousTestCase):
    def test_what_is_no_change_is_refused(self) -> None:
        self.assertEqual(read_entry([b"7-0", [b"ca/b/c/d", b"x"]]), Change(7, "c", "a/b/c/d", b"x"))
        for entry in (
            [b"7-0", [b"ca", b"x", b"more", b"y"]],
            [b"7-0", []],
            [b"7-0", None],
            [b"7-1", [b"ca", b"x"]],
            [b"7-0", [b"", b"x"]],
            [b"7-0", [b"qa", b"x"]],
            [b"7-0", [b"c\xff", b"x"]],
            [b"%d-0" % ((1 << 53) + 1), [b"ca", b"x"]],
        ):
            with self.assertRaises(ForeignEntry):
                read_entry(entry)

    def test_a_value_without_a_header_is_at_revision_zero(self) -> None:
        self.assertEqual(read_value(b"k", b"3:1\na3b"), StoredObject("k", 3, b"a3b"))
        for value in (
            b"",
            b"hello",
            b"3\na",
            b"x:1\na",
            b"3:y\na",
            b'{"a":1}',
            b"3:1",
            b"9" * 5000 + b":1\na",
            b"%d:1\na" % ((1 << 53) + 1),
        ):
            self.assertEqual(read_value(b"k", value), StoredObject("k", 0, value))
            with self.assertRaises(ForeignEntry):
                read_halves(value)
        with self.assertRaises(ForeignEntry):
            read_value(b"\xff", b"3:1\na3b")
        with self.assertRaises(ForeignEntry):
            read_halves(b"3:" + b"9" * 5000 + b"\na3b")

    def test_a_counter_that_is_no_revision_is_none(self) -> None:
        self.assertEqual(counter_of(b"12"), 12)
        for value in (None, b"", b"x", b"-1", b"9" * 5000):
            self.assertEqual(counter_of(value), 0)


class Foreign(SynchronousTestCase):
    """Another program may have written millions of entries."""

    def test_the_log_names_a_bounded_number_of_them(self) -> None:
        lines: list[Any] = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)
        skipped = Skipped()
        for number in range(1500):
            skipped.add(OBJECTS, b"%d" % number, "it is foreign")
        self.assertEqual(len([line for line in lines if line["log_namespace"] == "kapi.store.entries"]), 1001)
        self.assertEqual(skipped.total, 1500)


class Writes(SynchronousTestCase):
    def test_what_replies_to_writes_report(self) -> None:
        """A write that was refused has no revision, and another command is no write."""

        def write(key: str, newest: int) -> Any:
            return ("c", key, 0, b"<", b">", 0.0, (), newest, b"")

        batch: Any = [
            ((None, write("a", 3)), 5),
            ((None, write("b", 4)), -2),
            ((None, write("c", 4)), b"outdated"),
            ((None, [write("d", 5), write("e", 5), write("f", 5)]), [6, 0, 7]),
            ((None, [write("g", 5)]), b"outdated"),
            ((None, None), 8),
        ]
        self.assertEqual(
            written(batch),
            [Change(number, "c", key, b"<%d>" % number) for number, key in ((5, "a"), (6, "d"), (7, "f"))],
        )
        self.assertEqual(granted(batch), [(5, 3), (6, 5), (7, 5)])


class SentAgain(SynchronousTestCase):
    """A write that the server refused and did not do: with its script, and as sent now."""

    def test_it_is_the_same_write(self) -> None:
        writing, connection, outcome = Writing(Keys.under("kapi")), Mock(), Deferred()  # type: ignore[var-annotated]
        one = ("u", "k", 3, b"<", b">", 1.0, (b"5", b""), 7, ALLOWED_SHA)
        several = [("d", key, 3, b"<", b">", 1.0, (b"", b""), 7, DELETIONS_SHA) for key in "ab"]
        for write, script, words in (
            (one, SCRIPTS[ALLOWED_SHA], ("u", "k", 3, b"<", b">", b"5", b"")),
            (several, SCRIPTS[DELETIONS_SHA], ("a", 3, "b", 3)),
        ):
            writing.send_again(connection, (outcome, write))  # type: ignore[arg-type]
            (command, (same, again)), _ = connection.send.call_args
            self.assertEqual(command, (b"EVAL", script, 5, *Keys.under("kapi")[:5], *words))
            self.assertIs(same, outcome)
            for before, after in zip(
                *((each if isinstance(each, list) else [each]) for each in (write, again)), strict=True
            ):
                self.assertEqual((after[:5], after[6:]), (before[:5], before[6:]))
                self.assertGreater(after[5], 1.0)


class Batches(SynchronousTestCase):
    """The reply path of one connection."""

    def connected(self) -> Connection:
        connection = ConnectionFactory().buildProtocol(None)
        connection.makeConnection(StringTransport())
        connection.error = OutcomeUnknown("unknown")
        return connection

    def test_replies_before_a_broken_one_count(self) -> None:
        connection = self.connected()
        first, second = connection.execute_command("A"), connection.execute_command("B")
        connection.dataReceived(b":1\r\n?broken\r\n")
        self.assertEqual(self.successResultOf(first), 1)
        self.assertTrue(connection.transport.disconnected or connection.transport.disconnecting)
        self.assertNoResult(second)

    def test_a_reply_that_nobody_asked_for_ends_the_connection_but_loses_none(self) -> None:
        connection = self.connected()
        first = connection.execute_command("A")
        connection.dataReceived(b":1\r\n:2\r\n")
        self.assertEqual(self.successResultOf(first), 1)

    def test_whoever_waits_is_told_why_the_connection_was_ended(self) -> None:
        for said, why in (
            (b"?broken\r\n", "Protocol error"),
            (b":1\r\n:2\r\n", "a reply that nobody asked for"),
            (b":1\r\n-ERR max number of clients reached\r\n", "max number of clients"),
        ):
            connection = self.connected()
            connection.execute_command("A").addErrback(lambda _: None)
            connection.dataReceived(said)
            connection.connectionLost(Failure(ConnectionAborted()))
            self.assertIn(why, self.successResultOf(connection.lost))

    def test_a_handler_that_fails_leaves_nobody_waiting(self) -> None:
        connection = self.connected()

        def fail(batch: Any) -> None:
            batch[0][0][0].callback(batch[0][1])
            raise RuntimeError("broken")

        connection.on_replies = fail
        first, second = connection.execute_command("A"), connection.execute_command("B")
        write: defer.Deferred[Any] = defer.Deferred()
        connection.send((b"W",), (write, ("c", "k", 0, b"", b"", 0.0)))  # type: ignore[arg-type]
        connection.dataReceived(b":1\r\n:2\r\n:3\r\n")
        self.assertEqual(self.successResultOf(first), 1)
        self.failureResultOf(second, ConnectionGone)
        self.failureResultOf(write, OutcomeUnknown)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)


class Comparing(SynchronousTestCase):
    """What is done with replies when a history is compared: no other process's follower notices a loss earlier."""

    def test_a_revision_that_was_given_before_is_of_a_store_that_lost_data(self) -> None:
        for first, known, second in ((8, 8, 9), (8, 7, 8), (8, 7, 7), (8, 9, 9)):
            reasons: list[str] = []
            replies: Any = Replies("here", Mock(), Mock(), Mock(), None, Mock(), reasons.append, None, Mock())
            replies.begin(Mock(), True)
            outcomes: list[Deferred[int]] = [Deferred(), Deferred()]
            batch = [
                ((outcome, ("c", "g/r/n/a", 0, b"<", b">", 0.0, (), newest, b"")), revision)
                for outcome, newest, revision in zip(outcomes, (7, known), (first, second), strict=True)
            ]
            replies.take(batch[:1])
            self.assertEqual(self.successResultOf(outcomes[0]), first)
            replies.take(batch[1:])
            if second > max(first, known):
                self.assertEqual((self.successResultOf(outcomes[1]), reasons), (second, []))
            else:
                self.failureResultOf(outcomes[1], OutcomeUnknown)
                self.assertEqual(reasons, [f"it gave revision {second} again"])
