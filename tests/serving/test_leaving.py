"""Clients that go while something is on its way to them: it ends at once, over either protocol, and nothing is logged."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any

import h2.events
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from kapi.endpoints.body import raw_body
from kapi.endpoints.passing import pipe
from kapi.filters.chain import FilterChain
from kapi.machinery.gvk import GroupResource
from kapi.request.response import Response, StreamResponse
from kapi.wire.answer import Answer
from tests.serving.sockets import Client2, SocketCase, until_seen

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{MAPS}?watch=1&timeoutSeconds=3000"


def close(sock: ssl.SSLSocket) -> None:
    sock.close()


def reset(sock: ssl.SSLSocket) -> None:
    """Closes without TLS's or TCP's goodbye."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class LeavingCase(SocketCase):
    async def client2(self, **how: Any) -> Client2:
        return Client2(await self.client("h2", **how))

    def cache(self) -> Any:
        cache = self.api.caches.find(GroupResource("", "configmaps"))
        assert cache is not None
        return cache

    def serve(self, handler: Callable[[Any], Any]) -> list[int]:
        """Lets ``handler`` answer all requests; the codes with which they end."""
        ended: list[int] = []

        def first(ctx: Any) -> None:
            ctx.finishers.append(lambda _, code: ended.append(code))

        self.api.runner.chain = FilterChain([first], handler)
        return ended

    async def gone(self, ended: list[int]) -> None:
        await self.until(lambda: ended)
        self.clock.advance(4000)  # whatever would end it by time
        self.assertEqual(self.flushLoggedErrors(), [])


class Watches(LeavingCase):
    async def _ended(self) -> None:
        await self.until(lambda: not self.api.runner.watches)
        self.assertEqual(self.cache().watches, 0)
        await self.asked("POST", MAPS, {"metadata": {"name": "later"}})
        self.clock.advance(4000)
        self.assertEqual(self.flushLoggedErrors(), [])

    async def _watch2(self) -> tuple[Client2, int]:
        client = await self.client2()
        stream = client.begin("GET", WATCH)
        await client.until(h2.events.ResponseReceived, stream)
        self.assertEqual((len(self.api.runner.watches), self.cache().watches), (1, 1))
        return client, stream

    async def test_a_stream_that_is_reset(self) -> None:
        client, stream = await self._watch2()
        client.state.reset_stream(stream)
        client.flush()
        await self.until(lambda: not self.api.runner.watches)
        await client.until(h2.events.ResponseReceived, client.begin("GET", MAPS))  # the connection goes on
        await self._ended()

    async def test_an_http2_connection_that_ends(self) -> None:
        for end in (close, reset):
            client, _ = await self._watch2()
            end(client.sock)
            await self.until(lambda: not self.api.runner.watches)
        await self._ended()

    async def test_an_http1_connection_that_ends(self) -> None:
        for end in (close, reset):
            sock = await self.client()
            sock.sendall(f"GET {WATCH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await until_seen(sock, b"\r\n\r\n")
            self.assertEqual(self.cache().watches, 1)
            end(sock)
            await self.until(lambda: not self.api.runner.watches)
        await self._ended()

    async def test_a_websocket_that_ends(self) -> None:
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\nOrigin: x"
        for end in (close, reset):
            sock = await self.client()
            sock.sendall(f"GET {WATCH} HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n\r\n".encode())
            await until_seen(sock, b"\r\n\r\n")
            self.assertEqual(self.cache().watches, 1)
            end(sock)
            await self.until(lambda: not self.api.runner.watches)
        await self._ended()

    async def test_a_websocket_that_pings_and_does_not_read_is_not_read_either(self) -> None:
        """Each ping makes an answer, which would wait in memory."""
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\nOrigin: x"
        sock = await self.client(receive_buffer=4096)
        sock.sendall(f"GET {WATCH} HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n\r\n".encode())
        await until_seen(sock, b"\r\n\r\n")
        self.channels()[0].transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        ping = b"\x89\xfd\0\0\0\0" + b"x" * 125

        def flood() -> bool:
            sock.settimeout(1.0)
            try:
                for _ in range(300):
                    sock.sendall(ping * 1000)  # 40 MB in all: far more than the buffers of the sockets
            except TimeoutError:
                return False
            return True

        self.assertFalse(await deferToThread(flood))
        reset(sock)
        await self._ended()

    async def test_a_request_whose_client_goes_behind_what_it_sent_in_advance(self) -> None:
        """So much is not read any more while an answer is made, and so the end behind it would not be seen."""
        for end in (close, reset):
            sock = await self.client()
            sock.sendall(f"GET {WATCH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await until_seen(sock, b"\r\n\r\n")
            sock.sendall(b"x" * 65536)
            await self.until(lambda: not self.channels()[0].transport._reading)
            end(sock)
            await self.pass_time(3)
            await self.until(lambda: not self.api.runner.watches)
        await self._ended()

    async def test_a_watch_whose_stream_is_reset_with_its_request_never_begins(self) -> None:
        client = await self.client2()
        stream = client.state.get_next_available_stream_id()
        client.state.send_headers(
            stream, [(":method", "GET"), (":path", WATCH), (":scheme", "https"), (":authority", "x")], end_stream=True
        )
        client.state.reset_stream(stream)
        client.flush()
        other = client.begin("GET", MAPS)
        await client.until(h2.events.ResponseReceived, other)
        await self._ended()


class Bodies(LeavingCase):
    """Answers of many slices, none of which is taken."""

    def _list(self, ctx: Any) -> Response:
        return Response(200, [b"x" * 65536] * 200)

    async def test_over_http2(self) -> None:
        for end in (close, reset, lambda sock: None):
            ended = self.serve(self._list)
            client = await self.client2()
            stream = client.begin("GET", MAPS)
            await client.until(h2.events.ResponseReceived, stream)
            if end is not close and end is not reset:
                client.state.reset_stream(stream)
                client.flush()
            end(client.sock)
            await self.gone(ended)

    async def test_over_http1(self) -> None:
        for end in (close, reset):
            ended = self.serve(self._list)
            sock = await self.client(receive_buffer=4096)
            sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await until_seen(sock, b"\r\n\r\n")
            end(sock)
            await self.gone(ended)


class Waiting(LeavingCase):
    """Requests that wait for something when their client goes."""

    async def _leave(self, method: str, how: str) -> tuple[list[int], list[Deferred[Any]], list[bytes]]:
        waits: list[Deferred[Any]] = []
        bodies: list[bytes] = []

        async def handler(ctx: Any) -> Response:
            waits.append(Deferred())
            await waits[-1]
            bodies.append(raw_body(ctx))
            return Response(200, b"{}")

        ended = self.serve(handler)
        if how == "http1":
            sock = await self.client()
            sock.sendall(f"{method} {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
            await self.until(lambda: waits)
            sock.close()
        else:
            client = await self.client2()
            stream = client.begin(method, MAPS, end=False)
            client.state.send_data(stream, b"{}", end_stream=True)
            client.flush()
            await self.until(lambda: waits)
            if how == "stream":
                client.state.reset_stream(stream)
                client.flush()
                await self.until(lambda: not self.channels()[0].streams)
            client.sock.close()
        await self.until(lambda: not self.connections.open)
        return ended, waits, bodies

    async def test_a_read_is_given_up(self) -> None:
        for how in ("http1", "stream", "http2"):
            ended, _, bodies = await self._leave("GET", how)
            self.assertEqual((ended, bodies), ([499], []), how)

    async def test_a_write_whose_body_was_not_used_yet_ends_quietly(self) -> None:
        for how in ("http1", "stream", "http2"):
            ended, waits, bodies = await self._leave("PUT", how)
            waits[0].callback(None)
            self.assertEqual((ended, bodies), ([499], []), how)
            self.assertEqual(self.flushLoggedErrors(), [], how)


class Proxied(LeavingCase):
    def setUp(self) -> None:
        super().setUp()
        self.answers: list[Answer] = []
        self.stopped: list[Answer] = []
        self.ended = self.serve(lambda ctx: StreamResponse(lambda http: pipe(self.backend_answer(), http)))

    def backend_answer(self) -> Answer:
        """An answer of another server, whose body is on its way."""
        answer = Answer((b"HTTP", 1, 1), 200, b"OK", Headers())
        answer.begin(StringTransport(), lambda: self.stopped.append(answer))  # type: ignore[arg-type]
        self.answers.append(answer)
        return answer

    async def test_the_backend_is_told_when_the_client_goes(self) -> None:
        client = await self.client2()
        stream = client.begin("GET", MAPS)
        await self.until(lambda: self.answers)
        client.state.reset_stream(stream)
        client.flush()
        await self.gone(self.ended)
        self.assertEqual(self.stopped, self.answers)
        sock = await self.client()
        sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await self.until(lambda: len(self.answers) == 2)
        sock.close()
        await self.until(lambda: self.stopped == self.answers)
        await self.gone(self.ended)

    async def test_half_an_answer_resets_the_stream_and_the_connection_goes_on(self) -> None:
        client = await self.client2()
        stream = client.begin("GET", MAPS)
        await self.until(lambda: self.answers)
        self.answers[0].feed(b"half")
        self.clock.advance(0)
        await client.until(h2.events.DataReceived, stream)
        self.answers[0].finish(Failure(ConnectionLost()))
        event: Any = await client.until(h2.events.StreamReset, stream)
        self.assertEqual(event.error_code, 2)  # INTERNAL_ERROR
        self.serve(lambda ctx: Response(200, b"{}"))
        await client.until(h2.events.ResponseReceived, client.begin("GET", MAPS))
        await self.gone(self.ended)

    async def test_half_an_answer_breaks_the_connection_of_http1(self) -> None:
        sock = await self.client()
        sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await self.until(lambda: self.answers)
        self.answers[0].feed(b"half")
        await until_seen(sock, b"half\r\n")
        self.answers[0].finish(Failure(ConnectionLost()))
        with self.assertRaises(OSError):
            await until_seen(sock, b"0\r\n\r\n")
        await self.gone(self.ended)
