"""Peers that vanish, that come in numbers, or that take for ever."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import struct
import time
from typing import Any
from unittest.mock import patch

import h2.events
from hyperframe.frame import DataFrame, HeadersFrame
from twisted.internet.threads import deferToThread
from twisted.logger import LogLevel, formatEvent, globalLogPublisher

from kapi.filters.chain import FilterChain
from kapi.request.response import Response
from kapi.serving import connections as limits
from kapi.serving import listen, site
from tests.serving.sockets import Client2, SocketCase, ask, rest, until_seen
from tests.waiting import MAX_WAIT

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{MAPS}?watch=1&timeoutSeconds=30000"
_SO_ATTACH_FILTER = 26


def vanish(sock: socket.socket) -> None:
    """From now on nothing that comes reaches this socket: as if its machine had lost its network."""
    drop = struct.pack("HBBI", 0x06, 0, 0, 0)  # BPF: return 0
    program = ctypes.create_string_buffer(drop)
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program)))


class Vanished(SocketCase):
    keep_alive = (1, 1, 2)  # seconds, seconds, probes

    def setUp(self) -> None:
        with patch.object(listen, "KEEP_ALIVE", self.keep_alive):
            super().setUp()

    async def test_its_watch_ends(self) -> None:
        sock = await self.client()
        sock.sendall(f"GET {WATCH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until_seen(sock, b"\r\n\r\n")
        client = Client2(await self.client("h2"))
        await client.until(h2.events.ResponseReceived, client.begin("GET", WATCH))
        self.assertEqual(len(self.api.runner.watches), 2)
        vanish(sock)
        vanish(client.sock)
        await self.until(lambda: not self.connections.open)
        self.assertEqual((self.api.runner.watches, self.flushLoggedErrors()), (set(), []))

    async def test_one_that_only_is_idle_stays(self) -> None:
        sock = await self.client()
        sock.sendall(f"GET {WATCH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until_seen(sock, b"\r\n\r\n")
        await deferToThread(time.sleep, 4)  # longer than the probes take that are answered
        self.assertEqual(len(self.api.runner.watches), 1)


class AcceptedSockets(SocketCase):
    async def test_the_times_of_kube_apiservers_keep_alive(self) -> None:
        await self.client()
        sock = next(iter(self.connections.open)).transport.socket  # type: ignore[union-attr]
        self.assertEqual(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1)
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        self.assertEqual([sock.getsockopt(socket.IPPROTO_TCP, name) for name in names], [180, 15, 9])

    async def test_the_end_of_an_answer_does_not_wait_for_the_clients_confirmation(self) -> None:
        await self.client()
        sock = next(iter(self.connections.open)).transport.socket  # type: ignore[union-attr]
        self.assertEqual(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), 1)


class Many(SocketCase):
    async def test_more_connections_than_descriptors_are_closed_and_the_next_ones_served(self) -> None:
        first = await self.client()
        socks = [socket.socket() for _ in range(40)]
        for sock in socks:
            self.addCleanup(sock.close)
            sock.settimeout(MAX_WAIT)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(map(int, os.listdir("/proc/self/fd")))
        while (filler := os.open(os.devnull, os.O_RDONLY)) < highest:  # no free numbers below
            self.addCleanup(os.close, filler)
        os.close(filler)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, hard))
        try:
            for sock in socks:
                sock.connect(("127.0.0.1", self.port))
            await self.until(lambda: len(self.connections.open) > 1)
            self.assertEqual((await ask(first, f"GET {MAPS}"))[0], 200)  # who is there goes on
            self.assertLess(len(self.connections.open), 30)
            await deferToThread(self._closed, socks)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for sock in socks:
            sock.close()
        await self.until(lambda: len(self.connections.open) == 1)
        self.assertEqual((await ask(await self.client(), f"GET {MAPS}"))[0], 200)
        self.assertEqual(self.flushLoggedErrors(), [])

    async def test_clients_do_not_get_the_last_descriptors(self) -> None:
        """The store, webhooks and files need some; who comes when there are no more is closed, and may come again."""
        self.patch(site, "max_connections", lambda: 3)
        first, *others = [await self.client() for _ in range(3)]
        late = self.plain()
        told: list[dict[str, Any]] = []
        globalLogPublisher.addObserver(told.append)
        self.addCleanup(globalLogPublisher.removeObserver, told.append)
        self.assertEqual(await deferToThread(late.recv, 1), b"")
        self.connections.errors.flush()
        logged = [one for one in told if one.get("count") == 1]
        self.assertEqual([one["log_level"] for one in logged], [LogLevel.warn])  # the client can do nothing about it
        self.assertIn("there are 3, and the other file descriptors (ulimit -n) are reserved", formatEvent(logged[0]))
        self.assertEqual((await ask(first, f"GET {MAPS}"))[0], 200)
        for other in others:
            other.close()
        await self.until(lambda: len(self.connections.open) == 1)
        self.assertEqual((await ask(await self.client(), f"GET {MAPS}"))[0], 200)

    def test_some_descriptors_are_spared_whatever_their_number(self) -> None:
        for files, spared in ((64, 21), (1024, 128), (1 << 20, 128)):
            with patch.object(resource, "getrlimit", return_value=(files, files)):
                self.assertEqual(files - limits.max_connections(), spared)
        with patch.object(resource, "getrlimit", return_value=(resource.RLIM_INFINITY,) * 2):
            self.assertGreater(limits.max_connections(), 1 << 20)

    @staticmethod
    def _closed(socks: list[socket.socket]) -> None:
        """The last ones found no place."""
        for sock in socks[-5:]:
            try:
                assert sock.recv(1) == b""
            except ConnectionResetError:
                pass


class Slow(SocketCase):
    async def test_a_handshake_that_goes_on_byte_by_byte_ends(self) -> None:
        sock = self.plain()
        hello = b"\x16\x03\x01\x40\x00"
        await self.until(lambda: self.connections.open)
        for byte in hello:
            sock.sendall(bytes([byte]))
            await self.pass_time(6)
        await self.pass_time(3)
        with self.assertRaises(ConnectionError):
            if not await deferToThread(sock.recv, 100):
                raise ConnectionError

    async def test_a_body_that_trickles_has_no_more_time_than_another(self) -> None:
        sock = await self.client()
        sock.sendall(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n".encode())
        await self.until(lambda: self.channels() and self.channels()[0]._max_wait == 60)
        for number in range(6):
            await self.pass_time(9)
            sock.sendall(b" ")
            await self.until(lambda number=number: self.channels()[0].request.body_size > number)
        await self.pass_time(8)
        self.assertTrue((await rest(sock)).startswith(b"HTTP/1.1 408 "))
        self.assertEqual(self.connections.errors.counter.rows, {("timeout",): 1})

    async def test_nor_over_http2(self) -> None:
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", MAPS, end=False)
        await self.until(lambda: self.channels() and self.channels()[0]._bodies)
        for _ in range(6):
            await self.pass_time(9)
            client.state.send_data(stream, b" ")
            client.flush()
        await self.pass_time(8)
        await client.until(h2.events.StreamReset, stream)

    async def test_a_head_that_trickles_over_http2(self) -> None:
        client = Client2(await self.client("h2"))
        block = client.state.encoder.encode([(":method", "GET"), (":path", MAPS), (":scheme", "https")])
        client.flush()
        client.sock.sendall(HeadersFrame(1, block[:2]).serialize())
        await self.until(lambda: self.channels() and self.channels()[0]._head_since)
        await self.pass_time(33)
        await client.until(h2.events.ConnectionTerminated)

    async def test_a_list_that_nobody_reads_holds_nothing_when_its_client_is_cut_off(self) -> None:
        ended: list[int] = []
        note = FilterChain([lambda ctx: ctx.finishers.append(lambda _, code: ended.append(code))], self._list)
        self.api.runner.chain = note
        sock = await self.client(receive_buffer=4096)
        sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until_seen(sock, b"\r\n\r\n")
        transport: Any = next(iter(self.connections.open)).transport
        self.assertLess(transport.unsent_bytes, 1 << 18)  # and not all of its 13 MB
        sock.close()
        await self.until(lambda: ended)

    @staticmethod
    def _list(ctx: Any) -> Response:
        return Response(200, [b"x" * 65536] * 200)

    async def test_a_client_of_http2_that_takes_nothing_at_all_is_cut_off(self) -> None:
        client = Client2(await self.client("h2", receive_buffer=4096))
        transport: Any = next(iter(self.connections.open)).transport
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.state.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
        client.state.increment_flow_control_window(1 << 24)
        self.api.runner.chain = FilterChain([], self._list)
        client.begin("GET", MAPS)
        await self.until(lambda: self.clock.advance(0) or (self.channels() and self.channels()[0]._blocked_since))
        await self.pass_time(310)
        self.assertEqual(len(self.connections.open), 1)
        await self.pass_time(10)
        await self.until(lambda: not self.connections.open)
        self.assertEqual(self.flushLoggedErrors(), [])

    async def test_an_endless_body_over_http2_resets_its_stream(self) -> None:
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", MAPS, end=False)
        await self.until(lambda: self.channels() and self.channels()[0].streams)
        request = next(iter(self.channels()[0].streams.values())).request
        request.body_size = 64 << 20
        client.sock.sendall(DataFrame(stream, b"more").serialize())
        await client.until(h2.events.StreamReset, stream)
        await client.until(h2.events.ResponseReceived, client.begin("GET", MAPS))
        self.assertEqual(self.flushLoggedErrors(), [])
