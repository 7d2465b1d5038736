"""Commands leave together, in order, and none is forgotten."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from unittest.mock import patch

import hiredis
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint, UNIXServerEndpoint
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.store.connection import MAX_COMMANDS, Connection, ConnectionFactory, ConnectionGone

LARGE = 1_200_000  # bytes


class Transport(StringTransport):
    """``pushed``: how often it was asked to send what it has."""

    pushed = 0

    def doWrite(self) -> None:
        self.pushed += 1


def ping(number: int) -> bytes:
    return b"*2\r\n$4\r\nPING\r\n$%d\r\n%d\r\n" % (len(str(number)), number)


class Commands(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.transport = Clock(), Transport()
        self.connection = Connection(self.clock)  # type: ignore[arg-type]  # a clock is enough
        self.connection.makeConnection(self.transport)

    def test_those_of_a_turn_leave_at_its_end(self) -> None:
        asked = [self.connection.execute_command("PING", number) for number in range(3)]
        self.assertEqual(self.transport.value(), b"")
        self.clock.advance(0)
        self.assertEqual((self.transport.value(), self.transport.pushed), (b"".join(map(ping, range(3))), 1))
        self.connection.dataReceived(b":0\r\n:1\r\n:2\r\n")
        self.assertEqual([self.successResultOf(one) for one in asked], [0, 1, 2])
        self.connection.execute_command("PING", 3)
        self.clock.advance(0)
        self.assertEqual(self.transport.value(), b"".join(map(ping, range(4))))

    def test_many_do_not_wait_for_it(self) -> None:
        for number in range(MAX_COMMANDS + 1):
            self.connection.execute_command("PING", number)
        self.assertEqual(self.transport.value(), b"".join(map(ping, range(MAX_COMMANDS))))
        self.clock.advance(0)
        self.assertEqual(self.transport.value(), b"".join(map(ping, range(MAX_COMMANDS + 1))))

    def test_the_connection_goes_before_the_end_of_the_turn(self) -> None:
        asked = self.connection.execute_command("PING", 0)
        self.connection.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(asked, ConnectionGone)
        self.clock.advance(0)
        self.assertEqual(self.transport.value(), b"")
        self.failureResultOf(self.connection.execute_command("PING", 1), ConnectionGone)

    def test_one_that_is_being_closed_is_left_to_the_reactor(self) -> None:
        """It closes the socket when all is sent, and would not hear of that."""
        self.connection.execute_command("PING", 0)
        self.transport.loseConnection()
        self.clock.advance(0)
        self.assertEqual((self.transport.value(), self.transport.pushed), (ping(0), 0))

    def test_a_command_that_cannot_be_packed_takes_nobodys_reply(self) -> None:
        """Without memory for it, say: a reply that is taken for another command's would acknowledge what was not done."""
        first = self.connection.execute_command("PING", 0)
        with patch.object(hiredis, "pack_command", side_effect=MemoryError), self.assertRaises(MemoryError):
            self.connection.execute_command("PING", 9)
        second = self.connection.execute_command("PING", 1)
        self.clock.advance(0)
        self.assertEqual(self.transport.value(), ping(0) + ping(1))
        self.connection.dataReceived(b":0\r\n:1\r\n")
        self.assertEqual([self.successResultOf(one) for one in (first, second)], [0, 1])

    def test_commands_that_cannot_be_sent_end_the_connection(self) -> None:
        asked = self.connection.execute_command("PING", 0)
        with patch.object(self.transport, "writeSequence", side_effect=MemoryError):
            self.clock.advance(0)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(len(self.flushLoggedErrors(MemoryError)), 1)
        self.connection.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(asked, ConnectionGone)

    def test_without_a_reactor_each_leaves_by_itself(self) -> None:
        connection, transport = Connection(), StringTransport()
        connection.makeConnection(transport)
        connection.execute_command("PING", 0)
        self.assertEqual(transport.value(), ping(0))


class Large(TestCase):
    """On a real socket."""

    async def test_an_object_leaves_in_as_few_turns_as_the_socket_allows(self) -> None:
        """Every write behind it waits for its end, and others are computed in each turn: 128 KiB a turn are too little."""
        with TemporaryDirectory() as directory:
            server = Sink(LARGE)
            address = f"{directory}/s"
            port = await UNIXServerEndpoint(reactor, address).listen(Factory.forProtocol(lambda: server))
            connection = await UNIXClientEndpoint(reactor, address).connect(ConnectionFactory(reactor))
            transport, written = connection.transport, []
            write = transport.writeSomeData
            transport.writeSomeData = lambda data: written.append(write(data)) or written[-1]
            asked = connection.execute_command("SET", "k", b"x" * LARGE)
            await server.full
            self.assertLessEqual(len(written), LARGE // 200_000, written)
            connection.abort()
            await connection.lost
            self.failureResultOf(asked, ConnectionGone)
            await port.stopListening()


class Sink(Protocol):
    """``full``: so many bytes have come."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.full: Deferred[None] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.left -= len(data)
        if self.left <= 0 and not self.full.called:
            self.full.callback(None)
