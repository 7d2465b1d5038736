"""Connections that come, begin a handshake or are given up by the thousand: how many of them one turn of the reactor takes."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

from OpenSSL import SSL
from twisted.internet import reactor
from twisted.internet.task import Clock, deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase

from kapi.process.shares import Flow, Level
from kapi.process.turn import Turn
from kapi.request.pending import Pending
from kapi.serving.generic import NotFound
from kapi.serving.site import Connections
from kapi.serving.tls_connection import TLSConnection
from tests.serving.sockets import SocketCase, answer, ask

MAPS = "/api/v1/namespaces/default/configmaps"
CLIENTS = 60


def hello() -> bytes:
    """What a client begins with."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Together(SocketCase):
    async def test_those_that_come_together_are_taken_in_several_turns(self) -> None:
        port: Any = self.listening._port
        port.numberAccepts = 1000  # as after a while in which many came
        for _ in range(CLIENTS):
            self.plain()
        sizes = [0]
        while sizes[-1] < CLIENTS:
            await deferLater(reactor, 0)  # type: ignore[arg-type]
            sizes.append(len(self.connections.open))
        self.assertLessEqual(max(after - before for before, after in zip(sizes, sizes[1:], strict=False)), 16)

    async def test_handshakes_have_a_part_of_a_turn_and_who_is_connected_is_served_between_them(self) -> None:
        done: list[SSL.Connection] = []
        #: a handshake takes a millisecond, and nothing else takes any time
        turn = Turn(reactor, timer=lambda: 0.001 * len(done), seconds=0.003)  # type: ignore[arg-type]
        transports: Any = self.listening._port.transport  # type: ignore[attr-defined]
        transports.turn = turn
        known = await self.client()
        self.assertEqual((await ask(known, f"GET {MAPS}"))[0], 200)
        for connection in self.connections.open:
            connection.transport.flow = Flow(Level("workload-low", 100))  # type: ignore[attr-defined]
        read, served = TLSConnection._read, list[int]()

        def count(connection: Any) -> Any:
            if connection.established:
                served.append(len(done))
            else:
                done.append(connection)
            return read(connection)

        self.patch(transports, "_read", count)
        socks, data = [self.plain() for _ in range(CLIENTS)], hello()
        await self.until(lambda: len(self.connections.open) > CLIENTS)
        for sock in socks:
            sock.sendall(data)
        # here, since a thread might only come to send it after the handshakes
        known.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        counts = [0]
        while counts[-1] < CLIENTS:
            await deferLater(reactor, 0)  # type: ignore[arg-type]
            counts.append(len(done))
        self.assertLessEqual(max(now - then for then, now in zip(counts, counts[1:], strict=False)), 5)
        self.assertEqual((await deferToThread(answer, known))[0], 200)
        self.assertLess(served[0], CLIENTS)


class Late:
    """A connection whose time is over."""

    def __init__(self, connections: Connections, ended: list[object]) -> None:
        self.connections, self.ended = connections, ended
        connections.watched.add(self)

    def sweep(self, now: float) -> None:
        self.connections.watched.discard(self)
        self.ended.append(self)


class Broken(Late):
    def sweep(self, now: float) -> None:
        raise ZeroDivisionError


class Sweeps(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.connections = Connections(NotFound(), self.clock)
        runner: Any = SimpleNamespace(reactor=self.clock, pending=Pending(self.clock.seconds))
        self.connections.runner = runner
        self.ended: list[object] = []
        self.connections.startFactory()
        self.addCleanup(self.connections.stopFactory)

    def turn(self) -> int:
        """How many end in one turn of the reactor."""
        before = len(self.ended)
        due = [call for call in self.clock.calls if call.getTime() <= self.clock.rightNow]
        for call in due:
            self.clock.calls.remove(call)
            call.func(*call.args)
        return len(self.ended) - before

    def test_a_thousand_whose_time_is_over_end_in_several_turns(self) -> None:
        for _ in range(1000):
            Late(self.connections, self.ended)
        self.clock.rightNow += 1
        turns = [self.turn() for _ in range(9)]
        self.assertEqual(sum(turns), 1000)
        self.assertLessEqual(max(turns), 128)

    def test_a_fault_with_one_does_not_keep_the_others(self) -> None:
        for kind in (Late, Broken, Late):
            kind(self.connections, self.ended)
        self.clock.advance(1)
        self.assertEqual(len(self.ended), 2)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        Late(self.connections, self.ended)
        self.clock.advance(1)
        self.assertEqual(len(self.ended), 3)
