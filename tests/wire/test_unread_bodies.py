"""Bodies of answers that nobody reads yet: the server is made to wait."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import Mock

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.wire.answer import Answer
from kapi.wire.connection import Connection
from kapi.wire.transport import MAX_BUFFERED, Stream, StreamClosed

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"


class UnreadBodies(SynchronousTestCase):
    def ask(self) -> tuple[Any, Connection, Deferred[Answer]]:
        connection, transport = Connection(Mock()), StringTransport()
        connection.makeConnection(transport)
        answered: Deferred[Answer] = Deferred()
        connection.ask(b"GET / HTTP/1.1\r\n\r\n", answered)
        return transport, connection, answered

    def test_a_connection_waits_for_a_reader(self) -> None:
        transport, connection, answered = self.ask()
        connection.dataReceived(HEAD + b"ab")
        answer = self.successResultOf(answered)
        self.assertEqual(transport.producerState, "paused")
        found: list[Any] = []
        answer.read(found.append, found.append)
        self.assertEqual((transport.producerState, found), ("producing", [b"ab"]))
        connection.dataReceived(b"cdef")
        self.assertEqual(found, [b"ab", b"cdef", None])

    def test_it_does_not_for_one_that_was_waiting(self) -> None:
        transport, connection, answered = self.ask()
        found: list[Any] = []
        answered.addCallback(lambda answer: answer.read(found.append, found.append))
        connection.dataReceived(HEAD + b"abc")
        self.assertEqual((transport.producerState, found), ("producing", [b"abc"]))

    def test_nor_for_a_body_that_is_all_there(self) -> None:
        transport, connection, answered = self.ask()
        connection.dataReceived(HEAD + b"abcdef")
        self.assertEqual(transport.producerState, "producing")
        found: list[Any] = []
        self.successResultOf(answered).read(found.append, found.append)
        self.assertEqual(found, [b"abcdef", None])

    def test_a_stream_takes_so_much_before_each_read(self) -> None:
        flow: list[bool] = []
        stream = Stream(flow.append, lambda: None)
        for _ in range(2):
            stream.feed(b"x" * (MAX_BUFFERED - 1))
            stream.feed(b"y")
            self.assertEqual(flow, [])
            stream.feed(b"z")
            stream.feed(b"z")
            self.assertEqual(flow, [True])
            read = self.successResultOf(Deferred.fromCoroutine(stream.read()))
            self.assertEqual((len(read), flow), (MAX_BUFFERED + 2, [True, False]))
            flow.clear()

    def test_a_stream_says_how_it_ends(self) -> None:
        """What came before the end is read first."""
        broken = Failure(ConnectionLost())
        for end, kind in (
            (lambda stream: stream.finish(), None),
            (lambda stream: stream.finish(broken), ConnectionLost),
            (lambda stream: stream.close(), StreamClosed),
        ):
            aborted: list[bool] = []
            streams = [Stream(lambda wait: None, partial(aborted.append, True)) for _ in range(2)]
            waiting = Deferred.fromCoroutine(streams[0].read())
            streams[1].feed(b"a")
            for stream in streams:
                end(stream)
                stream.feed(b"late")
                stream.close()
            if kind is not StreamClosed:  # who closes it wants nothing more
                self.assertEqual(self.successResultOf(Deferred.fromCoroutine(streams[1].read())), b"a")
            self.assertEqual(aborted, [True, True] if kind is StreamClosed else [])
            for read in (waiting, Deferred.fromCoroutine(streams[1].read())):
                if kind is None:
                    self.assertEqual(self.successResultOf(read), b"")
                else:
                    self.failureResultOf(read, kind)
