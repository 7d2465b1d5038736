"""Outgoing HTTP/2, against a server that another library implements and against servers that lie, byte for byte."""

from __future__ import annotations

from typing import Any

import treq
from OpenSSL import SSL
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, gatherResults, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import TestCase
from twisted.web.http_headers import Headers

from kapi.request.streamed_body import StreamedBody
from kapi.wire.agent import Agent, Body, prepared_url
from kapi.wire.answer import MAX_HEAD, AnswerTooLarge, BadAnswer
from kapi.wire.collected import Collected
from kapi.wire.connection import has_unread_data
from kapi.wire.dial import Dialer
from kapi.wire.egress import EgressProxy, by_connect
from kapi.wire.head import BadHead
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.frames import Code
from kapi.wire.http2.pool import HANDSHAKE_SECONDS, NegotiatingPool, offered_protocols
from kapi.wire.http2.receiving import WINDOW
from kapi.wire.pool import MAX_IDLE
from kapi.wire.tls.trust import client_options
from tests.waiting import accepted_ended, eventually
from tests.wire.agents import asked
from tests.wire.connect_proxy import ConnectProxy
from tests.wire.http2_peer import Arriving, Negotiated, block, data, headers
from tests.wire.http2_server import CERTIFICATE, Request, frames_in, honest, liar, options
from tests.wire.script import scripted

LIMIT = 4_000_000  # bytes
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Meter:
    """Counts nothing of an egress proxy."""

    def begin(self, *labels: str) -> None:
        pass

    def connected(self, *labels: object) -> None:
        pass

    def failed(self, *labels: str) -> None:
        pass

    def register(self, registry: object) -> None:
        pass


class Http2Case(TestCase):
    def setUp(self) -> None:
        self.port: Any = None
        self.pools: list[NegotiatingPool] = []

    def serve(self, factory: Any, *protocols: bytes, number: int = 0) -> Agent:
        """An agent for a server that chooses among ``protocols``."""
        listen: Any = reactor.listenSSL  # type: ignore[attr-defined]
        self.port = listen(number, factory, options(*protocols), interface="127.0.0.1")
        self.number = self.port.getHost().port
        return self.agent()

    def agent(self, proxy: EgressProxy | None = None) -> Agent:
        dialer = Dialer(reactor, proxy=proxy)  # type: ignore[arg-type]
        tls = client_options("127.0.0.1", CERTIFICATE)
        endpoint = dialer.endpoint("127.0.0.1", self.number, tls, protocols=offered_protocols())
        pool = NegotiatingPool(reactor, endpoint.connect)  # type: ignore[arg-type]
        self.pools.append(pool)
        return Agent(pool, [(b"X-Always", b"yes")])

    async def stop(self) -> None:
        port, self.port = self.port, None
        if port is not None:
            await port.stopListening()

    async def tearDown(self) -> None:
        for pool in self.pools:
            for connection in list(pool.open):
                connection.transport.abortConnection()  # type: ignore[attr-defined]
            await pool.close()
        await self.stop()
        await accepted_ended()
        for warning in self.flushWarnings():
            self.assertIn("pyOpenSSL", str(warning["message"]))

    def ask(self, agent: Agent, body: bytes | None = b"hello", method: bytes = b"POST", path: str = "/a?b=c") -> Any:
        return asked(agent, method, f"https://127.0.0.1:{self.number}{path}".encode(), body, LIMIT)


class HonestServers(Http2Case):
    async def test_a_request_as_the_server_sees_it(self) -> None:
        server = honest(lambda request: request.answer(b"yes", 201, (b"x-kind", b"a"), (b"x-kind", b"b")))
        answer = await self.ask(self.serve(server, b"h2"))
        self.assertEqual((answer.code, answer.body, answer.length, answer.version), (201, b"yes", 3, (b"HTTP", 2, 0)))
        self.assertEqual(answer.headers.getRawHeaders(b"x-kind"), [b"a", b"b"])
        request = server.requests[0]
        self.assertEqual(
            request.headers[:4],
            [
                (b":method", b"POST"),
                (b":scheme", b"https"),
                (b":authority", b"127.0.0.1:%d" % self.number),
                (b":path", b"/a?b=c"),
            ],
        )
        self.assertEqual((request.fields[b"x-always"], request.fields[b"content-length"]), (b"yes", b"5"))
        self.assertEqual(request.body, b"hello")

    async def test_answers_in_all_forms(self) -> None:
        def empty(request: Request) -> None:
            request.connection.h2.send_headers(request.number, [(b":status", b"204")], end_stream=True)

        def interim(request: Request) -> None:
            request.head(103, (b"link", b"x"))
            request.answer(b"after")

        def trailers(request: Request) -> None:
            request.head(200)
            request.connection.h2.send_data(request.number, b"with", pad_length=20)
            request.connection.h2.send_headers(request.number, [(b"x-sum", b"1")], end_stream=True)

        def head_only(request: Request) -> None:
            request.head(200, (b"content-length", b"99"))
            request.connection.h2.end_stream(request.number)

        server = honest()
        agent = self.serve(server, b"h2")
        for handle, method, body, wanted in (
            (empty, b"POST", b"x", b""),
            (interim, b"POST", b"", b"after"),
            (trailers, b"GET", None, b"with"),
            (head_only, b"HEAD", None, b""),
        ):
            server.handle = handle
            self.assertEqual((await self.ask(agent, body, method)).body, wanted, handle.__name__)
        self.assertEqual(len(server.connections), 1)

    async def test_requests_at_once_share_one_connection(self) -> None:
        """Also those before the first connection."""
        waiting: list[Request] = []
        server = honest(waiting.append)
        agent = self.serve(server, b"h2")
        for _ in range(2):
            sent = [self.ask(agent, b"%d" % number) for number in range(20)]
            await eventually(lambda: len(waiting) == 20)
            for request in reversed(waiting):
                request.answer(b"to " + request.body)
            waiting.clear()
            found = await gatherResults(sent)
            self.assertEqual([answer.body for answer in found], [b"to %d" % number for number in range(20)])
        self.assertEqual(len(server.connections), 1)

    async def test_more_requests_than_the_server_allows_open_more_connections(self) -> None:
        waiting: list[Request] = []
        server = honest()
        server.max_streams = 2
        agent = self.serve(server, b"h2")
        await self.ask(agent)  # the server says how many it allows
        server.handle = waiting.append
        sent = [self.ask(agent) for _ in range(6)]
        await eventually(lambda: len(waiting) == 6)
        for request in waiting:
            request.answer()
        await gatherResults(sent)
        self.assertEqual(len(server.connections), 3)

    async def test_no_more_connections_stay_idle_than_over_http1(self) -> None:
        waiting: list[Request] = []
        server = honest()
        server.max_streams = 1
        agent = self.serve(server, b"h2")
        await self.ask(agent)  # the server says how many it allows
        server.handle = waiting.append
        sent = [self.ask(agent) for _ in range(MAX_IDLE + 5)]
        await eventually(lambda: len(waiting) == MAX_IDLE + 5)
        for request in waiting:
            request.answer()
        await gatherResults(sent)
        await eventually(lambda: len(agent.pool.open) == MAX_IDLE)
        server.handle = Request.answer
        self.assertEqual((await self.ask(agent)).body, b"ok")
        self.assertEqual(len(server.connections), MAX_IDLE + 5)

    async def test_large_bodies_go_both_ways(self) -> None:
        body = bytes(range(256)) * 12_000
        agent = self.serve(honest(lambda request: request.answer(request.body)), b"h2")
        found = await gatherResults([self.ask(agent, body), self.ask(agent, body[1:])])
        self.assertEqual([answer.body for answer in found], [body, body[1:]])

    async def test_a_request_that_is_given_up_resets_its_stream_only(self) -> None:
        waiting: list[Request] = []
        server = honest(waiting.append)
        agent = self.serve(server, b"h2")
        first, second = self.ask(agent, b"1"), self.ask(agent, b"2")
        await eventually(lambda: len(waiting) == 2)
        first.cancel()
        with self.assertRaises(CancelledError):
            await first
        await eventually(lambda: waiting[0].reset is not None)
        self.assertEqual(waiting[0].reset, Code.CANCEL)
        waiting[1].answer()
        self.assertEqual((await second).body, b"ok")
        early = self.ask(agent, b"3")
        early.cancel()
        with self.assertRaises(CancelledError):
            await early
        self.assertEqual(len(server.connections), 1)

    async def test_who_gives_up_while_connecting_leaves_the_others_their_connection(self) -> None:
        server = honest()
        agent = self.serve(server, b"h2")
        first, second = self.ask(agent, b"1"), self.ask(agent, b"2")
        first.cancel()
        with self.assertRaises(CancelledError):
            await first
        self.assertEqual((await second).body, b"ok")
        self.assertEqual([request.body for request in server.requests], [b"2"])
        alone = self.ask(self.agent(), b"3")
        alone.cancel()
        with self.assertRaises(CancelledError):
            await alone

    async def test_requests_through_a_proxy_share_a_connection_too(self) -> None:
        proxy = ConnectProxy()
        self.addCleanup(proxy.close)
        server = honest(lambda request: request.answer(request.body))
        self.serve(server, b"h2")
        way: Any = by_connect("proxy")
        egress = EgressProxy(lambda reactor: Dialer(reactor).endpoint("127.0.0.1", proxy.port), way, ("", ""), Meter())
        agent = self.agent(egress)
        found = await gatherResults([self.ask(agent, b"x" * 100_000) for _ in range(3)])
        self.assertEqual([len(answer.body) for answer in found], [100_000] * 3)
        self.assertEqual((len(proxy.asked), len(server.connections)), (1, 1))
        self.assertEqual((await self.ask(agent)).body, b"hello")

    async def test_an_answer_that_is_too_large_ends_its_stream_only(self) -> None:
        server = honest(lambda request: request.answer(b"x" * (LIMIT + 1) if request.body == b"much" else b"ok"))
        agent = self.serve(server, b"h2")
        with self.assertRaises(AnswerTooLarge):
            await self.ask(agent, b"much")
        self.assertEqual((await self.ask(agent)).body, b"ok")
        self.assertEqual(len(server.connections), 1)

    async def test_a_slow_reader_stops_its_own_answer_only(self) -> None:
        server = honest(lambda request: request.answer(b"x" * 2_000_000 if request.body == b"much" else b"ok"))
        agent = self.serve(server, b"h2")
        uri = f"https://127.0.0.1:{self.number}/".encode()
        slow: Any = await agent.request(b"POST", uri, None, Body(b"much"))
        for _ in range(3):
            self.assertEqual((await self.ask(agent)).body, b"ok")
        (unsent,) = server.connections[0].unsent.values()
        self.assertGreaterEqual(len(unsent), 2_000_000 - WINDOW)
        collected = Collected(LIMIT)
        slow.deliverBody(collected)
        self.assertEqual(len(await collected.done), 2_000_000)
        self.assertEqual(len(server.connections), 1)

    async def test_a_server_that_takes_no_body_costs_no_other_request(self) -> None:
        server = honest()
        server.opens_windows = False
        agent = self.serve(server, b"h2")
        stuck = self.ask(agent, b"x" * 200_000)
        self.assertEqual((await self.ask(agent, None, b"GET")).body, b"ok")
        await eventually(lambda: len(server.connections[0].requests[1].body) == wire.DEFAULT_WINDOW)
        stuck.cancel()
        with self.assertRaises(CancelledError):
            await stuck
        self.assertEqual((await self.ask(agent, None, b"GET")).body, b"ok")

    async def test_a_server_may_answer_before_it_has_read_the_body(self) -> None:
        server = honest()
        server.opens_windows = False
        agent = self.serve(server, b"h2")
        sent = self.ask(agent, b"x" * 200_000)
        await eventually(lambda: server.connections and server.connections[0].requests)
        server.connections[0].requests[1].answer(b"enough", 413)
        answer = await sent
        self.assertEqual((answer.code, answer.body), (413, b"enough"))
        await eventually(lambda: server.connections[0].requests[1].reset is not None)
        self.assertEqual(server.connections[0].requests[1].reset, Code.NO_ERROR)

    async def test_a_server_may_reset_each_stream_whose_body_it_does_not_need(self) -> None:
        """A Go server answers so when a handler has not read the body (RFC 9113, section 8.1)."""
        waiting: list[Request] = []
        server = honest(waiting.append)
        server.opens_windows = False
        agent = self.serve(server, b"h2")
        agent.pool._reactor = Clock()  # nothing is forgiven because time passes
        watch = self.ask(agent, None, b"GET")
        await eventually(lambda: waiting)

        def enough(request: Request) -> None:
            request.answer(b"enough", 429)
            request.connection.transport.write(wire.reset(request.number, Code.NO_ERROR))

        server.handle = enough
        for _ in range(30):
            answers = await gatherResults([self.ask(agent) for _ in range(40)])
            self.assertEqual({answer.code for answer in answers}, {429})
        waiting[0].answer(b"watched")
        self.assertEqual((await watch).body, b"watched")
        self.assertEqual(len(server.connections), 1)

    async def test_a_head_that_the_server_would_not_take_is_not_sent(self) -> None:
        """Its server might end the connection, on which others have requests."""
        server = honest()
        agent = self.serve(server, b"h2")
        await self.ask(agent)
        largest = server.connections[0].h2.local_settings.max_header_list_size
        url = f"https://127.0.0.1:{self.number}/".encode()
        fields = server.requests[0].headers
        used = sum(len(name) + len(value) + 32 for name, value in fields) - len("a?b=c") + len("x-much") + 32
        for more in (0, 1):
            headers = Headers({b"X-Much": [b"x" * (largest - used + more)]})
            sent = agent.request(b"POST", url, headers, Body(b"hello"))
            if more:
                with self.assertRaises(BadHead) as caught:
                    await sent
                text = "http2: request header list larger than peer's advertised limit"
                self.assertEqual(str(caught.exception), text)
            else:
                answer: Any = await sent
                self.assertEqual(answer.code, 200)
                answer.abort()
        self.assertEqual((await self.ask(agent)).body, b"ok")
        self.assertEqual((len(server.requests), len(server.connections)), (3, 1))

    async def test_what_a_server_refuses_is_sent_again(self) -> None:
        def refuse(request: Request) -> None:
            server.handle = Request.answer
            request.connection.h2.reset_stream(request.number, Code.REFUSED_STREAM)

        server = honest(refuse)
        self.assertEqual((await self.ask(self.serve(server, b"h2"))).body, b"ok")
        self.assertEqual([request.body for request in server.requests], [b"hello"] * 2)

    async def test_what_a_server_always_refuses_fails_after_a_while(self) -> None:
        server = honest(lambda request: request.connection.h2.reset_stream(request.number, Code.REFUSED_STREAM))
        agent = self.serve(server, b"h2")
        clock = agent.pool._reactor = Clock()

        def again() -> list[Any]:
            """The timers of requests that are sent again."""
            return [call for call in clock.getDelayedCalls() if call.func.__name__ == "_place"]

        sent = self.ask(agent)
        for attempts in range(2, 9):
            await eventually(lambda wanted=attempts: len(server.requests) == wanted)
            if attempts < 8:  # the first one is sent again at once
                await eventually(again)
                self.assertEqual(again()[0].getTime() - clock.seconds(), 2.0 ** (attempts - 2))
                clock.advance(2.0 ** (attempts - 2))
        with self.assertRaises(BadAnswer) as caught:
            await sent
        self.assertEqual(str(caught.exception), "stream error: stream ID 15; REFUSED_STREAM; received from peer")

    async def test_what_came_after_goaway_is_sent_on_another_connection(self) -> None:
        waiting: list[Request] = []
        server = honest(waiting.append)
        agent = self.serve(server, b"h2")
        first, second = self.ask(agent, b"1"), self.ask(agent, b"2")
        await eventually(lambda: len(waiting) == 2)
        waiting[0].connection.transport.write(wire.goaway(1, Code.NO_ERROR))
        await eventually(lambda: len(waiting) == 3)
        self.assertEqual((waiting[2].body, waiting[2].number), (b"2", 1))
        waiting[0].answer(b"first")
        waiting[2].answer(b"second")
        self.assertEqual([(await first).body, (await second).body], [b"first", b"second"])
        await waiting[0].connection.lost  # the client ends it after the last answer
        self.assertEqual(len(server.connections), 2)

    async def test_a_request_that_the_server_has_begun_is_not_sent_again(self) -> None:
        def vanish(request: Request) -> None:
            request.connection.transport.abortConnection()

        def leave(request: Request) -> None:
            request.connection.transport.write(wire.goaway(request.number, Code.INTERNAL_ERROR))
            request.connection.transport.loseConnection()

        server = honest(vanish)
        agent = self.serve(server, b"h2")
        with self.assertRaises((ConnectionLost, ConnectionDone, SSL.Error)):
            await self.ask(agent)
        server.handle = leave
        with self.assertRaises(BadAnswer) as caught:
            await self.ask(agent)
        self.assertEqual(
            str(caught.exception),
            "http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=INTERNAL_ERROR",
        )
        self.assertEqual(len(server.requests), 2)

    async def test_a_connection_is_not_used_whose_end_has_come_but_was_not_told_yet(self) -> None:
        server = honest()
        agent = self.serve(server, b"h2")
        await self.ask(agent)
        pool: Any = agent.pool
        (kept,) = pool._shared
        kept.idle_since -= 2
        kept.transport.stopReading()  # the reactor is busy elsewhere
        server.connections[0].transport.loseConnection()
        await eventually(lambda: has_unread_data(kept.transport))
        self.assertEqual((await self.ask(agent)).body, b"ok")
        self.assertEqual(len(server.connections), 2)

    async def test_forgotten_connections_end_with_their_last_answer(self) -> None:
        waiting: list[Request] = []
        server = honest(waiting.append)
        agent = self.serve(server, b"h2")
        busy = self.ask(agent)
        await eventually(lambda: waiting)
        agent.pool.forget()
        waiting[0].answer(b"old")
        self.assertEqual((await busy).body, b"old")
        await server.connections[0].lost
        server.handle = Request.answer
        self.assertEqual((await self.ask(agent)).body, b"ok")
        agent.pool.forget()
        await server.connections[1].lost
        self.assertEqual(len(server.connections), 2)

    async def test_closing_waits_for_requests_under_way(self) -> None:
        waiting: list[Request] = []
        agent = self.serve(honest(waiting.append), b"h2")
        busy = self.ask(agent)
        await eventually(lambda: waiting)
        closed = agent.pool.close()
        self.assertFalse(closed.called)
        waiting[0].answer()
        self.assertEqual((await busy).body, b"ok")
        await closed

    async def test_who_waits_for_a_connection_when_the_pool_closes_gets_it_and_leaves_none(self) -> None:
        server = honest()
        agent = self.serve(server, b"h2")
        sent = [self.ask(agent) for _ in range(3)]
        agent.pool.close()
        self.assertEqual([(await each).body for each in sent], [b"ok"] * 3)
        await gatherResults([connection.lost for connection in server.connections])
        self.assertEqual(agent.pool.open, set())


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


class ArrivingBodies(Http2Case):
    """Bodies that are sent while they arrive."""

    def post(self, agent: Agent, body: StreamedBody) -> Any:
        return agent.pool.send_head(b"POST", b"POST / HTTP/1.1\r\nHost: x\r\n", body)

    async def request_of(self, server: Any, number: int = 1) -> Request:
        """A request whose head has come."""
        await eventually(lambda: server.connections and number in server.connections[0].requests)
        found: Request = server.connections[0].requests[number]
        return found

    async def test_the_server_gets_what_has_come(self) -> None:
        for length in (None, 5):
            server = honest()
            agent = self.serve(server, b"h2")
            body = StreamedBody(Arriving(), length, b"abc")
            sent = self.post(agent, body)
            request = await self.request_of(server)
            await eventually(lambda request=request: request.body == b"abc")
            self.assertEqual(request.fields.get(b"content-length"), None if length is None else b"5")
            self.assertEqual(server.requests, [])
            body.received(b"de")
            body.end()
            self.assertEqual((await sent).code, 200)
            self.assertEqual(request.body, b"abcde")
            await self.stop()

    async def test_a_server_that_takes_nothing_stops_the_body_only(self) -> None:
        server = honest()
        server.opens_windows = False
        agent = self.serve(server, b"h2")
        source = Arriving()
        body = StreamedBody(source, None, b"")
        sent = self.post(agent, body)
        request = await self.request_of(server)
        for _ in range(20):
            body.received(bytes(10_000))
        await eventually(lambda: len(request.body) == wire.DEFAULT_WINDOW)
        self.assertEqual(source.waiting, 130_000)  # the rest of the seventh piece is on its way
        self.assertEqual((await self.ask(agent, None, b"GET")).body, b"ok")
        server.opens_windows = True
        for stream in (None, 1):
            request.connection.h2.increment_flow_control_window(200_000, stream)
        request.connection.flush()
        body.end()
        await sent
        self.assertEqual((len(request.body), source.waiting), (200_000, 0))

    async def test_a_window_of_one_byte_is_used(self) -> None:
        server = honest()
        server.opens_windows = False
        agent = self.serve(server, b"h2")
        body = StreamedBody(Arriving(), None, bytes(wire.DEFAULT_WINDOW + 2))
        body.end()
        sent = self.post(agent, body)
        request = await self.request_of(server)
        await eventually(lambda: len(request.body) == wire.DEFAULT_WINDOW)
        request.connection.h2.increment_flow_control_window(9, 1)
        for more in (1, 2):
            request.connection.h2.increment_flow_control_window(1, None)
            request.connection.flush()
            await eventually(lambda more=more: len(request.body) == wire.DEFAULT_WINDOW + more)
        await sent

    async def test_bodies_share_the_connections_window(self) -> None:
        server = honest()
        agent = self.serve(server, b"h2")
        size, both = 1_000_000, []
        for _ in range(2):
            body = StreamedBody(Arriving(), size, bytes(size))
            body.end()
            both.append(self.post(agent, body))
        first, second = await self.request_of(server, 1), await self.request_of(server, 3)
        await eventually(lambda: len(second.body) > size // 4)
        self.assertLess(len(first.body) - len(second.body), size // 2)
        await gatherResults(both)
        self.assertEqual(len(server.connections), 1)

    async def test_an_answer_before_the_end_stops_the_body(self) -> None:
        server = honest()
        agent = self.serve(server, b"h2")
        body = StreamedBody(Arriving(), None, b"abc")
        sent = self.post(agent, body)
        request = await self.request_of(server)
        request.answer(b"enough", 413)
        self.assertEqual((await sent).code, 413)
        await eventually(lambda: request.reset == Code.NO_ERROR)
        body.received(bytes(1_000_000))
        body.end()
        self.assertEqual((await self.ask(agent)).body, b"ok")
        self.assertEqual(request.body, b"abc")

    async def test_what_was_begun_is_not_sent_again(self) -> None:
        server = honest()
        agent = self.serve(server, b"h2")
        sent = self.post(agent, StreamedBody(Arriving(), None, b"abc"))
        request = await self.request_of(server)
        request.connection.h2.reset_stream(1, Code.REFUSED_STREAM)
        request.connection.flush()
        with self.assertRaises(BadAnswer) as caught:
            await sent
        self.assertEqual(
            str(caught.exception),
            "http2: Transport: cannot retry err [stream error: stream ID 1; REFUSED_STREAM; received from peer] after"
            " Request.Body was written; define Request.GetBody to avoid this error",
        )

    async def test_the_end_of_the_connection_ends_the_body(self) -> None:
        server = honest()
        agent = self.serve(server, b"h2")
        source = Arriving()
        body = StreamedBody(source, None, b"abc")
        sent = self.post(agent, body)
        request = await self.request_of(server)
        request.connection.transport.abortConnection()
        with self.assertRaises(ConnectionLost):
            await sent
        body.received(bytes(100_000))
        self.assertEqual(source.waiting, 0)

    async def test_a_server_of_http1_gets_it_in_chunks_on_the_first_connection(self) -> None:
        server = scripted()
        server.script = [[OK]]
        agent = self.serve(server, b"http/1.1")
        body = StreamedBody(Arriving(), None, b"abc")
        sent = self.post(agent, body)
        body.end()
        self.assertEqual((await sent).code, 200)
        await eventually(lambda: len(server.requests) == 2)  # the body looks like a request to this server
        self.assertEqual((server.requests[1][0], len(server.connections)), (b"3\r\nabc\r\n0", 1))


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


class LyingServers(Http2Case):
    async def failure(self, *frames: bytes, greeting: bytes | None = None) -> tuple[str, Any]:
        """The error of a request, and the server's connection."""
        server = liar(*frames, greeting=greeting)
        agent = self.serve(server, b"h2")
        try:
            found = await self.ask(agent)
        except BadAnswer as problem:
            return str(problem), server.connections[0]
        finally:
            await self.stop()
        raise AssertionError(f"the answer was taken: {found.body!r}")

    async def test_a_malformed_answer_ends_its_stream_only(self) -> None:
        for frames, text in (
            ((wire.reset(1, Code.INTERNAL_ERROR),), "stream error: stream ID 1; INTERNAL_ERROR; received from peer"),
            ((headers(), wire.reset(1, Code.REFUSED_STREAM)), "stream error: stream ID 1; REFUSED_STREAM; received"),
            ((wire.reset(1, 99),), "stream error: stream ID 1; unknown error code 0x63; received from peer"),  # type: ignore[arg-type]
            ((data(b"x"),), "DATA before HEADERS"),
            ((data(b"", ends=True),), "an end before HEADERS"),
            ((headers(status="20"),), "missing status pseudo header"),
            ((headers(status="2x0"),), "missing status pseudo header"),
            ((headers(("X-Large", "a")),), "malformed header field"),
            ((headers(("x y", "a")),), "malformed header field"),
            ((headers(("x", "a\nb")),), "malformed header field"),
            ((headers((":path", "/")),), "malformed header field"),
            ((headers(("connection", "close")),), "malformed header field"),
            ((headers(("content-length", "-1")),), "bad Content-Length"),
            ((headers(("content-length", "1"), ("content-length", "2")),), "bad Content-Length"),
            ((headers(("content-length", "1"), ends=True),), "unexpected EOF"),
            ((headers(("content-length", "1")), data(b"ab")), "the body has another length"),
            ((headers(("content-length", "3")), data(b"ab", ends=True)), "the body has another length"),
            ((headers(), headers(("x", "y"))), "trailers before the end"),
            ((headers(status="101"),), "too many interim answers"),
            ((headers(status="100", ends=True),), "too many interim answers"),
            ((headers(("link", "x" * 1000), status="103") * (MAX_HEAD // 1000),), "too many interim answers"),
            ((headers(*[(f"x{n}", "y" * 1000) for n in range(MAX_HEAD // 1000)]),), "server response headers exceeded"),
            ((wire.window_update(1, wire.MAX_WINDOW_BYTES),), "the stream's window is too large"),
            ((headers(), wire.window_update(1, 0)), "WINDOW_UPDATE by nothing"),
        ):
            found, connection = await self.failure(*frames)
            self.assertIn(text, found, frames)
            self.assertFalse(connection.lost.called, text)

    async def test_windows_may_be_as_large_as_a_number(self) -> None:
        most = wire.MAX_WINDOW_BYTES - wire.DEFAULT_WINDOW
        server = liar(wire.window_update(0, most), wire.window_update(1, most), headers(ends=True))
        answer = await self.ask(self.serve(server, b"h2"))
        self.assertEqual(answer.code, 200)

    async def test_a_violation_of_the_protocol_ends_the_connection(self) -> None:
        opened = wire.head(4 + len(block()), wire.PUSH_PROMISE, wire.END_HEADERS, 1) + bytes((0, 0, 0, 2)) + block()
        for frames, text in (
            ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "FRAME_SIZE_ERROR"),
            ((headers(stream=3),), "HEADERS of no stream"),
            ((headers(stream=2),), "HEADERS of a stream that is none of the client's"),
            ((data(b"x", stream=3),), "DATA of no stream"),
            ((opened,), "PUSH_PROMISE"),
            ((wire.settings({wire.ENABLE_PUSH: 1}),), "a server has enabled push"),
            ((wire.settings({wire.INITIAL_WINDOW_SIZE: 2**31}),), "FLOW_CONTROL_ERROR"),
            (
                (
                    wire.window_update(1, wire.MAX_WINDOW_BYTES - wire.DEFAULT_WINDOW),
                    wire.settings({wire.INITIAL_WINDOW_SIZE: wire.DEFAULT_WINDOW + 99}),
                ),
                "a stream's window is too large",
            ),
            ((wire.settings({wire.MAX_FRAME_SIZE: 1}),), "SETTINGS_MAX_FRAME_SIZE"),
            ((wire.window_update(0, wire.MAX_WINDOW_BYTES),), "the connection's window is too large"),
            (
                (wire.head(wire.DEFAULT_FRAME + 1, wire.DATA, 0, 1) + bytes(wire.DEFAULT_FRAME + 1),),
                "a frame is too long",
            ),
            ((wire.header_block(1, b"\xff\xff\xff\xff\xff\xff", 0, wire.DEFAULT_FRAME),), "COMPRESSION_ERROR"),
            ((wire.head(1, wire.HEADERS, 0, 1) + b"\x88", wire.head(8, wire.PING, 0, 0) + bytes(8)), "interrupted"),
            ((wire.head(1, wire.HEADERS, 0, 1) + b"\x88", wire.head(0, wire.CONTINUATION, 0, 1) * 100), "too long"),
            (
                (
                    wire.head(1, wire.HEADERS, 0, 1) + b"\x88",
                    (wire.head(wire.DEFAULT_FRAME, wire.CONTINUATION, 0, 1) + b"\x82" * wire.DEFAULT_FRAME) * 40,
                ),
                "a header block is too long",
            ),
            (((wire.head(8, wire.PING, 0, 0) + bytes(8)) * 2000,), "too many frames like PING"),
            ((wire.settings({}) * 2000,), "too many frames like SETTINGS"),
            ((headers(), data(b"") * 2000), "too many frames like DATA of nothing"),
            ((wire.window_update(1, 1) * 20_000,), "too many frames like WINDOW_UPDATE"),
        ):
            found, connection = await self.failure(*frames)
            self.assertIn(text, found, text)
            self.assertIn("connection error: ", found)
            await connection.lost
            self.assertIn(wire.GOAWAY, [kind for kind, _, _, _ in frames_in(connection.received)], text)

    async def test_the_first_frame_must_be_settings(self) -> None:
        found, _ = await self.failure(headers(ends=True), greeting=b"")
        self.assertIn("the first frame is not SETTINGS", found)

    async def test_data_beyond_the_window_ends_the_stream(self) -> None:
        server = liar(headers(), data(bytes(wire.DEFAULT_FRAME)) * (WINDOW // wire.DEFAULT_FRAME + 1))
        agent = self.serve(server, b"h2")
        answer: Any = await agent.request(b"POST", f"https://127.0.0.1:{self.number}/".encode(), None, Body(b"x"))
        await eventually(
            lambda: any(kind == wire.RST_STREAM for kind, _, _, _ in frames_in(server.connections[0].received))
        )
        with self.assertRaises(BadAnswer) as caught:
            collected = Collected(LIMIT)
            answer.deliverBody(collected)
            await collected.done
        self.assertEqual(str(caught.exception), "more than the stream's window")

    async def test_a_body_that_cannot_be_decoded_ends_its_stream_only(self) -> None:
        server = liar(headers(("content-encoding", "gzip")))
        agent = self.serve(server, b"h2")
        answer = await agent.ask("GET", prepared_url(f"https://127.0.0.1:{self.number}/"))
        reading = treq.content(answer)
        server.connections[0].transport.write(data(b"hello"))
        with self.assertRaisesRegex(BadAnswer, "malformed content encoding: .*incorrect header"):
            await reading
        await eventually(
            lambda: wire.RST_STREAM in [kind for kind, _, _, _ in frames_in(server.connections[0].received)]
        )
        self.assertFalse(server.connections[0].lost.called)

    async def test_what_follows_a_reset_of_this_end_is_ignored(self) -> None:
        server = liar()
        agent = self.serve(server, b"h2")
        sent = self.ask(agent)
        await eventually(lambda: server.connections and server.connections[0].has_request())
        sent.cancel()
        with self.assertRaises(CancelledError):
            await sent
        server.connections[0].transport.write(headers() + data(b"late", ends=True))
        second = self.ask(agent)
        server.connections[0].transport.write(headers(stream=3) + data(b"mine", ends=True, stream=3))
        await eventually(
            lambda: len([1 for kind, _, _, _ in frames_in(server.connections[0].received) if kind == wire.HEADERS]) == 2
        )
        self.assertEqual((await second).body, b"mine")

    async def test_answers_that_cross_many_resets_are_no_flood(self) -> None:
        """The servers of a hundred requests that are given up may have sent a whole window each."""
        server = liar()
        agent = self.serve(server, b"h2")
        sent = [self.ask(agent) for _ in range(100)]
        await eventually(lambda: server.connections and server.connections[0].requests() == 100)
        for given_up in sent[:-1]:
            given_up.cancel()
            with self.assertRaises(CancelledError):
                await given_up
        for stream in range(1, 199, 2):
            server.connections[0].transport.write(headers(stream=stream) + data(b"late", stream=stream) * 16)
        server.connections[0].transport.write(headers(stream=199) + data(b"mine", ends=True, stream=199))
        self.assertEqual((await sent[-1]).body, b"mine")

    async def test_a_server_that_allows_no_stream_does_not_collect_connections(self) -> None:
        server = liar(greeting=wire.settings({wire.MAX_CONCURRENT_STREAMS: 0}))
        agent = self.serve(server, b"h2")
        sent = self.ask(agent)
        await eventually(lambda: server.connections and server.connections[0].has_request())
        sent.cancel()
        with self.assertRaises(CancelledError):
            await sent
        await server.connections[0].lost
