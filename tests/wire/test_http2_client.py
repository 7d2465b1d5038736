"""Outgoing HTTP/2 against a server that another library implements."""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL
from twisted.internet.defer import CancelledError, gatherResults
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.web.http_headers import Headers

from kapi.wire.agent import Body
from kapi.wire.answer import AnswerTooLarge, BadAnswer
from kapi.wire.collected import Collected
from kapi.wire.connection import has_unread_data
from kapi.wire.dial import Dialer
from kapi.wire.egress import EgressProxy, by_connect
from kapi.wire.head import BadHead
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.frames import Code
from kapi.wire.http2.receiving import WINDOW
from kapi.wire.pool import MAX_IDLE
from tests.waiting import eventually
from tests.wire.connect_proxy import ConnectProxy
from tests.wire.http2_case import LIMIT, Http2Case
from tests.wire.http2_server import Request, honest


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
