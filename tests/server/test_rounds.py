"""Whose work is done first while there is much of it."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.server.rounds import Rounds
from tests.server.sockets import SocketCase, ask

MAPS = "/api/v1/namespaces/default/configmaps"


class Connection:
    def __init__(self, flow: int, order: list[int]) -> None:
        self.flow: int | None = flow
        self._order = order

    def take_turn(self) -> None:
        assert self.flow is not None
        self._order.append(self.flow)


class Order(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.order: list[int] = []

    def wait(self, rounds: Rounds, *flows: int) -> None:
        for flow in flows:
            rounds.wait(Connection(flow, self.order))

    def test_flows_take_turns(self) -> None:
        rounds = Rounds(self.clock, lambda: True, lambda: False)
        self.wait(rounds, 1, 1, 1, 1, 2, 3, 3)
        self.assertEqual(self.order, [], "what is ready is collected first")
        self.clock.advance(0)
        self.assertEqual(self.order, [1, 2, 3, 1, 3, 1, 1])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_spent_turn_leaves_the_rest_to_the_next_in_which_newcomers_have_their_place(self) -> None:
        rounds = Rounds(self.clock, lambda: True, lambda: len(self.order) % 2 == 0)
        self.wait(rounds, *[1] * 6)
        later = self.clock.getDelayedCalls()
        later[0].func()
        self.assertEqual(self.order, [1, 1])
        later[0].cancel()
        self.wait(rounds, 2)
        self.clock.advance(0)
        self.assertEqual(self.order[:4], [1, 1, 1, 2])

    def test_one_is_read_even_in_a_turn_that_was_spent_before(self) -> None:
        rounds = Rounds(self.clock, lambda: True, lambda: True)
        self.wait(rounds, 1, 2)
        self.clock.advance(0)
        self.clock.advance(0)
        self.assertEqual(self.order, [1, 2])


class Sockets(SocketCase):
    """Connections whose reading is put off, one in a turn."""

    def setUp(self) -> None:
        super().setUp()
        self.shared = True
        self.listening._port.transport.rounds = Rounds(reactor, lambda: self.shared, lambda: True)

    def transports(self) -> list[Any]:
        return [connection.transport for connection in self.connections.open]

    async def known(self, count: int) -> list[Any]:
        """Clients whose flows are known."""
        socks = [await self.client() for _ in range(count)]
        for sock in socks:
            self.assertEqual((await ask(sock, f"GET {MAPS}"))[0], 200)
        for number, transport in enumerate(self.transports()):
            transport.flow = number % 2
        return socks

    async def test_all_are_answered(self) -> None:
        socks = await self.known(4)
        body = json.dumps({"metadata": {"generateName": "a"}, "data": {"k": "x" * 100_000}}).encode()
        for _ in range(3):
            asked = [ask(sock, f"POST {MAPS}", body) for sock in socks]
            self.assertEqual([(await answer)[0] for answer in asked], [201] * 4)
        self.shared = False
        self.assertEqual((await ask(socks[0], f"GET {MAPS}"))[0], 200)

    async def test_a_client_that_goes_is_noticed(self) -> None:
        for sock in await self.known(3):
            sock.close()
        await self.until(lambda: not self.connections.open)

    async def test_a_connection_that_ends_while_it_waits_is_not_read(self) -> None:
        (sock,) = await self.known(1)
        (transport,) = self.transports()
        transport.doRead()
        self.assertNotIn(transport, reactor.getReaders())  # type: ignore[attr-defined]
        transport.abortConnection()
        await self.until(lambda: not self.connections.open)
        transport.take_turn()
        self.assertNotIn(transport, reactor.getReaders())  # type: ignore[attr-defined]
        sock.close()

    async def test_a_connection_that_may_not_be_read_stays_so(self) -> None:
        (sock,) = await self.known(1)
        (transport,) = self.transports()
        transport.doRead()
        transport.stopReading()
        transport.take_turn()
        self.assertNotIn(transport, reactor.getReaders())  # type: ignore[attr-defined]
        transport.startReading()
        self.assertEqual((await ask(sock, f"GET {MAPS}"))[0], 200)

    async def test_a_fault_ends_that_connection_alone(self) -> None:
        first, second = await self.known(2)
        broken = self.transports()[0]

        def fail(data: bytes) -> None:
            raise ZeroDivisionError

        broken.protocol.dataReceived = fail
        for sock in (first, second):
            sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await self.until(lambda: len(self.connections.open) == 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
