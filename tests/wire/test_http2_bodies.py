"""Outgoing bodies that are sent over HTTP/2 while they arrive."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import gatherResults
from twisted.internet.error import ConnectionLost

from kapi.request.streamed_body import StreamedBody
from kapi.wire.agent import Agent
from kapi.wire.answer import BadAnswer
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.frames import Code
from tests.waiting import eventually
from tests.wire.http2_case import OK, Http2Case
from tests.wire.http2_peer import Arriving
from tests.wire.http2_server import Request, honest
from tests.wire.script import scripted


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
