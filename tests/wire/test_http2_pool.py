"""Which connections a pool makes, shares and leaves: to servers of HTTP/2, of HTTP/1, and to those that change."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, gatherResults, succeed
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import TestCase

from kapi.wire.answer import BadAnswer
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.pool import HANDSHAKE_SECONDS, NegotiatingPool
from tests.waiting import eventually
from tests.wire.http2_case import OK, Http2Case
from tests.wire.http2_peer import Negotiated, headers
from tests.wire.http2_server import honest
from tests.wire.script import scripted


class Dials(TestCase):
    def test_a_connection_that_is_not_made_soon_keeps_no_further_request_waiting(self) -> None:
        clock = Clock()
        dials: list[Deferred[Any]] = []

        def connect(factory: object) -> Deferred[Any]:
            dials.append(Deferred())
            return dials[-1]

        pool = NegotiatingPool(clock, connect)
        sent = [pool.send(b"GET", b"/", []) for _ in range(2)]
        self.assertEqual(len(dials), 1)
        clock.advance(1)
        sent += [pool.send(b"GET", b"/", []) for _ in range(2)]
        self.assertEqual(len(dials), 2)
        dials[1].errback(ConnectionLost())
        for waiting in sent[2:]:
            self.failureResultOf(waiting, ConnectionLost)
        for waiting in sent[:2]:
            self.assertNoResult(waiting)
            waiting.cancel()
            self.failureResultOf(waiting, CancelledError)
        self.assertTrue(dials[0].called)  # who waits for nothing has ended it

    def test_a_server_that_does_not_finish_the_handshake_fails_all_that_wait(self) -> None:
        """A watch has no deadline that would end it."""
        clock = Clock()
        transports: list[StringTransport] = []

        def connect(factory: Any) -> Deferred[Any]:
            made = factory.buildProtocol(None)
            transports.append(StringTransport())
            made.makeConnection(transports[-1])
            return succeed(made)

        pool = NegotiatingPool(clock, connect)
        sent = [pool.send(b"GET", b"/", []) for _ in range(2)]
        clock.advance(HANDSHAKE_SECONDS - 1)
        for waiting in sent:
            self.assertNoResult(waiting)
        clock.advance(1)
        for waiting in sent:
            self.assertEqual(str(self.failureResultOf(waiting, BadAnswer).value), "net/http: TLS handshake timeout")
        self.assertEqual([transport.disconnected for transport in transports], [True])
        given_up = pool.send(b"GET", b"/", [])
        given_up.cancel()
        self.failureResultOf(given_up, CancelledError)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_a_pool_that_closes_makes_one_connection_for_all_that_wait(self) -> None:
        dials: list[Deferred[Any]] = []
        factories: list[Any] = []

        def connect(factory: Any) -> Deferred[Any]:
            factories.append(factory)
            dials.append(Deferred())
            return dials[-1]

        pool = NegotiatingPool(Clock(), connect)
        sent = [pool.send(b"GET", b"/", []) for _ in range(5)]
        pool.close()
        negotiation = factories[0].buildProtocol(None)
        negotiation.makeConnection(Negotiated())
        dials[0].callback(negotiation)
        negotiation.handshakeCompleted()
        self.assertEqual(len(dials), 1)
        asked_of = negotiation.transport
        negotiation.dataReceived(wire.settings({}))
        for number in range(len(sent)):
            negotiation.dataReceived(headers(stream=2 * number + 1, ends=True))
        for waiting in sent:
            self.assertEqual(self.successResultOf(waiting).code, 200)
        self.assertTrue(asked_of.disconnecting)
        negotiation.connectionLost()


class OtherServers(Http2Case):
    async def test_a_server_of_http1_gets_one_connection_for_each_request_under_way(self) -> None:
        for protocols in ((), (b"http/1.1",)):
            server = scripted()
            agent = self.serve(server, *protocols)
            server.script += [(OK,)] * 6
            for _ in range(2):
                found = await gatherResults([self.ask(agent, b"%d" % number) for number in range(3)])
                self.assertEqual([answer.body for answer in found], [b"ok"] * 3)
            self.assertEqual((len(server.requests), len(server.connections)), (6, 3))
            await self.stop()

    async def test_a_server_may_change_what_it_speaks(self) -> None:
        old, new = scripted(), honest()
        agent = self.serve(old, b"http/1.1")
        old.script += [(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",)] * 2
        self.assertEqual((await self.ask(agent)).body, b"no")
        await self.stop()
        self.serve(new, b"h2", number=self.number)
        found = await gatherResults([self.ask(agent) for _ in range(3)])
        self.assertEqual([answer.body for answer in found], [b"ok"] * 3)
        self.assertEqual(len(agent.pool.open), len(new.connections))
        for connection in new.connections:
            connection.transport.loseConnection()
        await gatherResults([connection.lost for connection in new.connections])
        await eventually(lambda: not agent.pool.open)
        await self.stop()
        self.serve(old, b"http/1.1", number=self.number)
        self.assertEqual((await self.ask(agent)).body, b"no")

    async def test_a_pool_that_closes_leaves_no_connection_to_a_server_that_has_changed(self) -> None:
        old, new = scripted(), honest()
        agent = self.serve(old, b"http/1.1")
        old.script += [(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",)]
        self.assertEqual((await self.ask(agent)).body, b"no")
        await self.stop()
        self.serve(new, b"h2", number=self.number)
        sent = self.ask(agent)
        closed = agent.pool.close()
        self.assertEqual((await sent).body, b"ok")
        await new.connections[0].lost
        await closed

    async def test_a_server_that_cannot_be_reached_fails_all_that_wait(self) -> None:
        agent = self.serve(honest(), b"h2")
        await self.stop()
        for sent in [self.ask(agent) for _ in range(3)]:
            with self.assertRaises(Exception) as caught:
                await sent
            self.assertEqual(type(caught.exception).__name__, "ConnectionRefusedError")
