"""Aggregated servers that choose HTTP/2: all requests to one of them share a connection, and none waits for another."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, TimeoutError, gatherResults
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure

from kapi.request.streamed_body import StreamedBody
from kapi.servers.aggregator.backend import BackendClient
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.frames import Code
from kapi.wire.http2.receiving import WINDOW
from tests.servers.aggregator.proxy_case import KEY, Http, Ignored, ProxyCase
from tests.waiting import eventually
from tests.wire.http2_server import Request, honest

PATH = b"/apis/example.com/v1/things"
WATCH = PATH + b"?watch=1"
EVENT = b'{"type":"ADDED"}\n'


class Slow(Http):
    """A request whose client reads nothing until ``reads``."""

    producer: Any = None

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def write(self, data: bytes) -> None:
        super().write(data)
        self.producer.pauseProducing()


class Refusing(Protocol):
    """Refuses an upgrade, and says what was chosen in the handshake."""

    transport: Any

    def dataReceived(self, data: bytes) -> None:
        self.transport.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\n\r\n" + self.transport.negotiatedProtocol)


class Http2Tests(ProxyCase):
    protocols = (b"h2", b"http/1.1")

    def server(self) -> Any:
        return honest(self.serve)

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self.end)

    def end(self) -> None:
        """Watches would keep the connections open."""
        for connection in self.factory.connections:
            if not connection.lost.called:
                connection.transport.abortConnection()

    def serve(self, request: Request) -> None:
        if request.fields[b":path"] != WATCH:
            request.answer(request.body or b"ok", 200, (b"content-type", b"text/x"))
            return
        request.head(200)
        request.connection.h2.send_data(request.number, EVENT)

    def send(self, request: Request, data: bytes) -> None:
        request.connection.h2.send_data(request.number, data)
        request.connection.flush()

    def watch(self, http: Http) -> Deferred[Any]:
        """A watch whose first event has come."""
        asked: Deferred[Any] = self.request(http)
        asked.addErrback(lambda why: None)
        return eventually(lambda: http.written)

    async def test_requests_at_once_share_a_connection(self) -> None:
        for _ in range(2):
            found = [Http(b"GET", PATH, {b"authorization": [b"Bearer secret"]}) for _ in range(20)]
            answers = await gatherResults([self.request(http) for http in found])
            self.assertEqual({answer.status for answer in answers}, {200})
            self.assertEqual({http.written for http in found}, {b"ok"})
        self.assertEqual(len(self.factory.connections), 1)
        fields = self.factory.requests[0].fields
        self.assertEqual((fields[b":authority"], fields[b"x-remote-user"]), (b"svc.ns.svc", b"alice"))
        self.assertNotIn(b"authorization", fields)

    async def test_the_servers_own_requests_take_the_same_connection(self) -> None:
        await self.request(Http(b"GET", PATH, {}))
        client = BackendClient(reactor, self.backends)  # type: ignore[arg-type]
        answer = await client.ask(KEY, "/apis/example.com/v1", 5.0)
        self.assertEqual((answer.code, answer.body, answer.content_type), (200, b"ok", "text/x"))
        self.assertEqual(len(self.factory.connections), 1)

    async def test_a_server_that_does_not_answer_gets_a_new_connection(self) -> None:
        await self.request(Http(b"GET", PATH, {}))
        self.factory.handle = lambda request: None
        with self.assertRaises(TimeoutError):
            await BackendClient(reactor, self.backends).ask(KEY, "/apis/example.com/v1", 0.3)  # type: ignore[arg-type]
        self.factory.handle = self.serve
        await self.request(Http(b"GET", PATH, {}))
        self.assertEqual(len(self.factory.connections), 2)

    async def test_large_bodies_go_both_ways(self) -> None:
        body = bytes(range(256)) * 12_000
        whole, streamed = Http(b"POST", PATH, {}, body), Http(b"POST", PATH, {})
        arriving = streamed.streamed = StreamedBody(Ignored(), len(body), body[:100])  # type: ignore[attr-defined]
        asked = gatherResults([self.request(whole), self.request(streamed)])
        for at in range(100, len(body), 100_000):
            arriving.received(body[at : at + 100_000])
        arriving.end()
        await asked
        self.assertEqual((whole.written == body, streamed.written == body), (True, True))
        lengths = [request.fields[b"content-length"] for request in self.factory.requests]
        self.assertEqual((lengths, len(self.factory.connections)), ([b"%d" % len(body)] * 2, 1))

    async def test_a_watch_beside_a_client_that_does_not_read(self) -> None:
        slow, quick = Slow(b"GET", WATCH, {}), Http(b"GET", WATCH, {})
        await self.watch(slow)
        await self.watch(quick)
        unread, read = self.factory.requests
        unread.connection.send(unread.number, bytes(4 * WINDOW))
        for number in range(5):
            self.send(read, EVENT)
            await eventually(lambda number=number: quick.written == EVENT * (number + 2))
            await self.request(Http(b"GET", PATH, {}))
        self.assertLessEqual(len(slow.written), WINDOW)
        self.assertGreaterEqual(len(self.factory.connections[0].unsent[unread.number]), 3 * WINDOW)
        while not slow.finished:
            before = len(slow.written)
            slow.producer.resumeProducing()
            await eventually(lambda before=before: slow.finished or len(slow.written) > before)
        self.assertEqual(len(slow.written), len(EVENT) + 4 * WINDOW)
        self.assertEqual(len(self.factory.connections), 1)

    async def test_a_client_that_goes_ends_its_watch_only(self) -> None:
        first, second = Http(b"GET", WATCH, {}), Http(b"GET", WATCH, {})
        await self.watch(first)
        await self.watch(second)
        first.over.callback(None)
        gone, stays = self.factory.requests
        await eventually(lambda: gone.reset is not None)
        self.assertEqual(gone.reset, Code.CANCEL)
        self.send(stays, EVENT)
        await eventually(lambda: second.written == EVENT * 2)

    async def test_a_server_that_leaves_ends_no_watch_that_it_goes_on_with(self) -> None:
        http = Http(b"GET", WATCH, {})
        await self.watch(http)
        (request,) = self.factory.requests
        request.connection.transport.write(wire.goaway(request.number, Code.NO_ERROR))
        for _ in range(2):
            self.assertEqual((await self.request(Http(b"GET", PATH, {}))).status, 200)
        self.assertEqual(len(self.factory.connections), 2)
        request.connection.send(request.number, EVENT * 3)
        await eventually(lambda: http.finished)
        self.assertEqual(http.written, EVENT * 4)
        await request.connection.lost

    async def test_a_server_that_resets_a_request_is_asked_again_by_a_probe(self) -> None:
        self.factory.handle = lambda request: request.connection.h2.reset_stream(request.number, Code.INTERNAL_ERROR)
        response = await self.request(Http(b"POST", PATH, {}, b"x"))
        self.assertEqual((response.status, self.failed), (503, [KEY]))
        self.assertIn(b"stream error: stream ID 1; INTERNAL_ERROR; received from peer", response.body)
        self.factory.handle = self.serve
        self.assertEqual((await self.request(Http(b"GET", PATH, {}))).status, 200)
        self.assertEqual(len(self.factory.connections), 1)

    async def test_a_watch_that_the_server_resets_is_cut_off(self) -> None:
        http = Slow(b"GET", WATCH, {})
        await self.watch(http)
        (request,) = self.factory.requests
        request.connection.h2.reset_stream(request.number, Code.INTERNAL_ERROR)
        request.connection.flush()
        await eventually(lambda: http.gone)
        self.assertFalse(http.finished)

    async def test_a_body_that_breaks_off_costs_only_its_request(self) -> None:
        http = Http(b"POST", PATH, {})
        body = http.streamed = StreamedBody(Ignored(), None, b"abc")  # type: ignore[attr-defined]
        asked = self.request(http)
        await eventually(lambda: self.factory.connections and self.factory.connections[0].requests)
        (request,) = self.factory.connections[0].requests.values()
        await eventually(lambda: request.body == b"abc")
        body.fail(Failure(ValueError("gone")))
        self.assertEqual(((await asked).status, self.failed), (503, []))
        await eventually(lambda: request.reset == Code.CANCEL)
        self.assertEqual((await self.request(Http(b"GET", PATH, {}))).status, 200)
        self.assertEqual(len(self.factory.connections), 1)

    async def test_an_upgrade_is_asked_for_over_http1(self) -> None:
        await self.request(Http(b"GET", PATH, {}))
        self.factory.protocol = Refusing
        headers = {b"connection": [b"Upgrade"], b"upgrade": [b"websocket"]}
        response = await self.request(Http(b"GET", PATH, headers))
        self.assertEqual((response.status, response.body), (403, b"http/1.1"))
