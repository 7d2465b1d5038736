"""Connections of a server that stops: what was asked is answered, clients learn that it was the last, nobody is waited for."""

from __future__ import annotations

import ssl
from typing import Any

import h2.events
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.internet.threads import deferToThread

from kapi.endpoints.tunnel import TunnelBackend
from kapi.filters.chain import FilterChain
from kapi.request.response import HijackedResponse, Response
from kapi.serving.connections import HEAD_TIMEOUT
from tests.serving.sockets import Client2, SocketCase, ask, rest

MAPS = "/api/v1/namespaces/default/configmaps"
GET = f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


class Stopping(SocketCase):
    def hold(self) -> list[Deferred[Any]]:
        """Requests wait from now on."""
        waits: list[Deferred[Any]] = []

        async def handler(ctx: Any) -> Response:
            waits.append(Deferred())
            await waits[-1]
            return Response(200, b"{}")

        self.api.runner.chain = FilterChain([], handler)
        return waits

    def all_closed(self) -> list[None]:
        done: list[None] = []
        self.connections.all_closed().addCallback(done.append)
        return done

    async def test_an_idle_connection_ends_at_once_and_is_not_waited_for(self) -> None:
        sock = await self.client()
        await ask(sock, f"GET {MAPS}")
        await self.pass_time(3)
        self.connections.close_idle()
        done = self.all_closed()
        await self.until(lambda: done)
        self.assertEqual(len(self.connections.open), 1)  # the client has not closed its end
        self.assertEqual(await rest(sock), b"")
        self.connections.abort_all()
        await self.until(lambda: not self.connections.open)

    async def test_connections_without_a_request_or_a_handshake_end(self) -> None:
        sock, plain = await self.client(), self.plain()
        await self.until(lambda: len(self.connections.open) == 2)
        await self.pass_time(3)
        self.connections.close_idle()
        self.assertEqual(await rest(sock), b"")
        with self.assertRaises(ConnectionResetError):
            await deferToThread(plain.recv, 1)

    async def test_an_answer_that_was_waited_for_says_that_it_is_the_last(self) -> None:
        waits = self.hold()
        sock = await self.client()
        sock.sendall(GET)
        await self.until(lambda: waits)
        self.connections.close_idle()
        done = self.all_closed()
        waits[0].callback(None)
        data = await rest(sock)
        self.assertTrue(data.startswith(b"HTTP/1.1 200 "))
        self.assertIn(b"connection: close", data.lower())
        await self.until(lambda: done)

    async def _answered(self, begun: int) -> None:
        socks = [await self.client() for _ in range(3)]
        await self.pass_time(10)
        for sock in socks:
            await ask(sock, f"GET {MAPS}")
            if begun:
                sock.sendall(GET[:begun])
        await self.until(
            lambda: sum(channel._max_wait == HEAD_TIMEOUT for channel in self.channels()) == (3 if begun else 0)
        )
        self.connections.close_idle()
        for sock in socks:
            sock.sendall(GET[begun:])
            data = await rest(sock)
            self.assertTrue(data.startswith(b"HTTP/1.1 200 "), data)
            self.assertIn(b"connection: close", data.lower())

    async def test_a_request_that_is_on_its_way_is_answered(self) -> None:
        await self._answered(0)

    async def test_a_request_that_has_begun_is_answered(self) -> None:
        await self._answered(30)

    async def test_a_request_whose_headers_have_begun_is_answered(self) -> None:
        await self._answered(len(GET) - 4)

    async def test_a_used_connection_without_another_request_ends_soon(self) -> None:
        sock = await self.client()
        await ask(sock, f"GET {MAPS}")
        self.connections.close_idle()
        self.clock.advance(1.0)
        self.assertEqual(await rest(sock), b"")

    async def test_how_soon_can_be_set(self) -> None:
        self.connections.last_request = 0.25
        sock = await self.client()
        await ask(sock, f"GET {MAPS}")
        self.connections.close_idle()
        self.clock.advance(0.25)
        self.assertEqual(await rest(sock), b"")

    async def test_what_is_sent_behind_the_last_request_is_not_carried_out(self) -> None:
        waits = self.hold()
        sock = await self.client()
        sock.sendall(GET + GET)
        await self.until(lambda: waits)
        self.connections.close_idle()
        waits[0].callback(None)
        self.assertEqual((await rest(sock)).count(b"HTTP/1.1 200"), 1)
        self.assertEqual(len(waits), 1)

    async def test_busy_clients_lose_no_request(self) -> None:
        def busy(sock: ssl.SSLSocket) -> tuple[int, bool]:
            """Asks as fast as it is answered; the number of answers, and whether the last said that it was."""
            count = 0
            while True:
                sock.sendall(GET)
                count += 1
                data = b""
                while b"\r\n\r\n" not in data or not data.endswith(b"}\n") and not data.endswith(b"}"):
                    part = sock.recv(1 << 16)
                    if not part:
                        return count, False
                    data += part
                if b"connection: close" in data.lower():
                    return count, True

        socks = [await self.client() for _ in range(8)]
        running = gatherResults([deferToThread(busy, sock) for sock in socks])
        await self.pass_time(1)
        self.connections.close_idle()
        done = self.all_closed()
        self.assertEqual([told for _, told in await running], [True] * 8)
        await self.until(lambda: done)

    async def test_streams_that_run_are_answered_and_later_ones_refused(self) -> None:
        waits = self.hold()
        client = Client2(await self.client("h2"))
        first = client.begin("GET", MAPS)
        await self.until(lambda: waits)
        self.connections.close_idle()
        done = self.all_closed()
        self.clock.advance(1.0)
        event: Any = await client.until(h2.events.ConnectionTerminated)
        self.assertEqual((event.error_code, event.last_stream_id), (0, first))
        # h2 takes no more on a connection that was told to end: what comes is read as it is
        client.sock.sendall(
            bytes.fromhex("000005010500000003") + client.state.encoder.encode([(":method", "GET")])[:1] * 5
        )
        waits[0].callback(None)
        self.clock.advance(0)
        self.clock.advance(0)
        data = await rest(client.sock)
        self.assertIn(b"{}", data)
        await self.until(lambda: done)
        self.assertEqual(len(waits), 1)

    async def test_a_used_http2_connection_is_told_behind_its_next_answer(self) -> None:
        client = Client2(await self.client("h2"))
        await client.until(h2.events.ResponseReceived, client.begin("GET", MAPS))
        await self.until(lambda: self.clock.advance(0.01) or not self.channels()[0].streams)
        self.connections.close_idle()
        stream = client.begin("GET", MAPS)
        await client.until(h2.events.ResponseReceived, stream)
        await self.until(lambda: self.clock.advance(0.01) or not self.channels() or not self.channels()[0].streams)
        await client.until(h2.events.StreamEnded, stream)
        event: Any = await client.until(h2.events.ConnectionTerminated)
        self.assertEqual((event.error_code, event.last_stream_id), (0, stream))

    async def test_an_http2_connection_without_streams_ends_at_once(self) -> None:
        client = Client2(await self.client("h2"))
        client.flush()
        await self.until(self.channels)
        await self.pass_time(3)
        self.connections.close_idle()
        done = self.all_closed()
        event: Any = await client.until(h2.events.ConnectionTerminated)
        self.assertEqual((event.error_code, event.last_stream_id), (0, 0))
        await self.until(lambda: done)

    async def test_a_tunnel_goes_on_while_requests_are_answered_and_is_not_waited_for(self) -> None:
        """As upstream: a connection that is no HTTP any more ends with the process."""
        backend = StringTransport()
        tunnel = TunnelBackend(None, b"", Clock())

        async def handler(ctx: Any) -> Response:
            tunnel._http = ctx.http
            tunnel.makeConnection(backend)
            tunnel.dataReceived(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
            return HijackedResponse()

        self.api.runner.chain = FilterChain([], handler)
        sock = await self.client()
        await deferToThread(sock.sendall, GET)
        self.assertIn(b" 101 ", await deferToThread(sock.recv, 1000))
        await self.pass_time(3)
        self.connections.close_idle()
        done = self.all_closed()
        self.assertEqual(done, [None])
        await deferToThread(sock.sendall, b"still here")
        await self.until(lambda: backend.value() == b"still here")
        tunnel.dataReceived(b"and here")
        self.assertEqual(await deferToThread(sock.recv, 1000), b"and here")
        self.connections.abort_all()
        await self.until(lambda: not self.connections.open)
