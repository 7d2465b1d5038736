"""Connections over real sockets: what is bounded in time, what survives, and how they end."""

from __future__ import annotations

import gc
import json
import socket
import ssl
import tracemalloc
from pathlib import Path
from typing import Any

import h2.events
import OpenSSL
from hyperframe.frame import ContinuationFrame, HeadersFrame
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

import kapi
import twisted
from kapi.filters.chain import FilterChain
from kapi.machinery.gvk import GroupResource
from kapi.request.response import Response
from tests.serving.sockets import Client2, SocketCase, answer, ask, rest, until_seen

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"GET {MAPS}?watch=1&resourceVersion=0&timeoutSeconds=100000 HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def config_map(name: str, size: int = 0) -> bytes:
    return json.dumps({"metadata": {"name": name}, "data": {"k": "x" * size}}).encode()


class Exchanges(SocketCase):
    async def test_bodies_of_many_records_over_one_connection(self) -> None:
        for maximum in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            sock = await self.client(maximum=maximum)
            name = f"large-{maximum}"
            self.assertEqual((await ask(sock, f"POST {MAPS}", config_map(name, 900_000)))[0], 201)
            for _ in range(2):
                code, body = await ask(sock, f"GET {MAPS}/{name}")
                self.assertEqual((code, len(json.loads(body)["data"]["k"])), (200, 900_000))

    async def test_a_large_answer_reaches_a_client_that_reads_late(self) -> None:
        sock = await self.client(receive_buffer=4096)
        await ask(sock, f"POST {MAPS}", config_map("large", 1_000_000))
        transport = next(iter(self.connections.open)).transport
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        sock.sendall(f"GET {MAPS}/large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        await self.until(lambda: transport.unsent_bytes)  # the socket takes no more
        data = await rest(sock)
        self.assertEqual(len(json.loads(data.partition(b"\r\n\r\n")[2])["data"]["k"]), 1_000_000)

    async def test_many_records_leave_in_one_call(self) -> None:
        sock = await self.client()
        await ask(sock, f"POST {MAPS}", config_map("large", 250_000))
        transport = next(iter(self.connections.open)).transport
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 << 20)
        send, sizes = transport._tlsConnection.send, []

        def counted(data: bytes) -> int:
            sizes.append(send(data))
            return sizes[-1]

        transport._tlsConnection.send = counted
        code, body = await ask(sock, f"GET {MAPS}/large")
        self.assertEqual((code, len(json.loads(body)["data"]["k"])), (200, 250_000))
        self.assertGreater(sum(sizes), 250_000)
        self.assertLessEqual(len(sizes), 6, sizes)  # that are 16 records

    async def test_the_refusal_of_a_body_reaches_a_client_that_is_still_sending(self) -> None:
        sock = await self.client()

        def send() -> tuple[int, bytes]:
            size = 8 << 20
            sock.sendall(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
            sock.sendall(b" " * size)
            return answer(sock)

        self.assertEqual((await deferToThread(send))[0], 413)

    async def test_what_a_client_leaves_behind_is_forgotten(self) -> None:
        sock = await self.client()
        sock.sendall(WATCH)
        await until_seen(sock, b"\r\n\r\n")
        self.assertEqual(len(self.api.runner.watches), 1)
        sock.close()
        await self.until(lambda: not self.connections.open)
        self.assertEqual((self.api.runner.watches, self.connections.watched), (set(), set()))

    async def test_garbage_instead_of_a_handshake_ends_the_connection(self) -> None:
        sock = self.plain()
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        await deferToThread(sock.recv, 1 << 16)
        await self.until(lambda: not self.connections.open)

    async def test_requests_sent_together_are_answered_in_order(self) -> None:
        sock = await self.client()
        await ask(sock, f"POST {MAPS}", config_map("a"))
        sock.sendall(f"GET {MAPS}/a HTTP/1.1\r\nHost: x\r\n\r\nGET {MAPS}/b HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        data = await until_seen(sock, b'"code":404}')
        self.assertLess(data.index(b"HTTP/1.1 200"), data.index(b"HTTP/1.1 404"))


class Departures(SocketCase):
    async def test_a_client_that_leaves_while_its_connection_is_not_read_is_noticed(self) -> None:
        """What it has sent meanwhile fills what is kept of it, so reading would not tell."""
        cancelled: list[bool] = []

        async def answer(ctx: Any) -> Response:
            await Deferred(lambda _: cancelled.append(True))
            raise AssertionError

        self.api.runner.chain = FilterChain([], answer)
        sock = await self.client()
        sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\nGET /".encode() + b"x" * 40_000)
        await self.until(lambda: self.channels() and self.channels()[0]._paused)
        await self.pass_time(40)
        self.assertEqual((cancelled, len(self.connections.open)), ([], 1))
        sock.close()
        for _ in range(100):
            if not self.connections.open:
                break
            await self.pass_time(1)
        self.assertEqual((cancelled, self.connections.open), ([True], set()))


class Deadlines(SocketCase):
    async def test_no_handshake(self) -> None:
        sock = self.plain()
        await self.until(lambda: self.connections.open)
        await self.pass_time(31)
        self.assertEqual(len(self.connections.open), 1)
        await self.pass_time(2)
        with self.assertRaises(ConnectionError):
            if not await deferToThread(sock.recv, 100):
                raise ConnectionError

    async def test_a_header_that_does_not_end(self) -> None:
        sock = await self.client()
        sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n".encode())
        await self.until(lambda: self.channels() and self.channels()[0]._max_wait == 32)
        await self.pass_time(20)
        sock.sendall(b"User-Agent: slow\r\n")  # a byte now and then buys no time
        await self.until(lambda: b"User-Agent: slow" in self.channels()[0]._early)
        await self.pass_time(13)
        self.assertTrue((await rest(sock)).startswith(b"HTTP/1.1 408 "))

    async def test_a_server_that_was_busy_for_long_judges_nobody_by_it(self) -> None:
        sock = await self.client()
        sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n".encode())
        await self.until(lambda: self.channels() and self.channels()[0]._max_wait == 32)
        sock.sendall(b"Authorization: x\r\nConnection: close\r\n\r\n")  # not read before the sweep
        self.clock.advance(40)
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:100])

    async def test_a_body_that_does_not_come(self) -> None:
        sock = await self.client()
        sock.sendall(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
        await self.until(lambda: self.channels() and self.channels()[0]._max_wait == 60)
        await self.pass_time(61)
        self.assertTrue((await rest(sock)).startswith(b"HTTP/1.1 408 "))

    async def test_nothing_asked_for_a_while(self) -> None:
        sock = await self.client()
        await ask(sock, f"GET {MAPS}")
        await self.pass_time(80)
        self.assertEqual((await ask(sock, f"GET {MAPS}"))[0], 200)
        await self.pass_time(80)
        self.assertEqual(len(self.connections.open), 1)
        await self.pass_time(11)
        self.assertEqual(await rest(sock), b"")  # an end, and no answer to a question that nobody asked

    async def test_an_idle_watch_is_none_and_its_connection_goes_on_afterwards(self) -> None:
        sock = await self.client()
        sock.sendall(WATCH.replace(b"100000", b"1000"))
        await until_seen(sock, b"\r\n\r\n")
        await self.pass_time(990)
        self.assertEqual(self.connections.watched, set())
        await self.asked("POST", MAPS, config_map("late"))
        await self.pass_time(1)
        await until_seen(sock, b'"name":"late"')
        await self.pass_time(20)
        await until_seen(sock, b"0\r\n\r\n")
        self.assertEqual((await ask(sock, f"GET {MAPS}"))[0], 200)
        await self.pass_time(91)
        self.assertEqual(await rest(sock), b"")


class Deadlines2(SocketCase):
    """The same for HTTP/2."""

    async def client2(self) -> Client2:
        return Client2(await self.client("h2"))

    async def test_a_stream_whose_body_does_not_come_is_reset_and_others_go_on(self) -> None:
        client = await self.client2()
        watch = client.begin("GET", f"{MAPS}?watch=1&timeoutSeconds=100000")
        await client.until(h2.events.ResponseReceived, watch)
        stream = client.begin("POST", MAPS, end=False)
        client.state.send_data(stream, b"{")
        client.flush()
        await self.until(lambda: len(self.channels()[0].streams) == 2)
        await self.pass_time(61)
        await client.until(h2.events.StreamReset, stream)
        await self.asked("POST", MAPS, config_map("new"))
        await self.pass_time(1)
        event: Any = await client.until(h2.events.DataReceived, watch)
        self.assertEqual(json.loads(event.data)["object"]["metadata"]["name"], "new")

    async def test_a_body_that_is_complete_has_no_deadline(self) -> None:
        client = await self.client2()
        stream = client.begin("POST", MAPS, end=False)
        client.state.send_data(stream, config_map("whole"), end_stream=True)
        client.flush()
        response: Any = await client.until(h2.events.ResponseReceived, stream)
        self.assertEqual(dict(response.headers)[b":status"], b"201")
        self.assertEqual(self.channels()[0]._bodies, {})

    async def test_headers_that_come_frame_by_frame_and_never_end(self) -> None:
        client = await self.client2()
        watch = client.begin("GET", f"{MAPS}?watch=1&timeoutSeconds=100000")
        await client.until(h2.events.ResponseReceived, watch)
        block = client.state.encoder.encode([(":method", "GET"), (":path", MAPS), (":scheme", "https")])
        client.sock.sendall(HeadersFrame(watch + 2, block[:4]).serialize())
        await self.until(lambda: self.channels()[0]._head_since)
        for _ in range(16):
            await self.pass_time(2)
            client.sock.sendall(ContinuationFrame(watch + 2, b"").serialize())
        await self.pass_time(2)
        await client.until(h2.events.ConnectionTerminated)

    async def test_pings_alone_keep_no_connection(self) -> None:
        client = await self.client2()
        stream = client.begin("GET", MAPS)
        await client.until(h2.events.ResponseReceived, stream)
        await self.pass_time(1)
        await client.until(h2.events.StreamEnded, stream)
        for _ in range(9):
            await self.pass_time(10)
            client.state.ping(b"12345678")
            client.flush()
        await self.pass_time(2)
        await client.until(h2.events.ConnectionTerminated)

    async def test_a_watch_alone_keeps_its_connection(self) -> None:
        client = await self.client2()
        watch = client.begin("GET", f"{MAPS}?watch=1&timeoutSeconds=100000")
        await client.until(h2.events.ResponseReceived, watch)
        await self.pass_time(1000)
        await self.asked("POST", MAPS, config_map("late"))
        await self.pass_time(1)
        event: Any = await client.until(h2.events.DataReceived, watch)
        self.assertIn(b'"name":"late"', event.data)


class Memory(SocketCase):
    async def _watches(self, count: int) -> None:
        for _ in range(count):
            sock = await self.client()
            sock.sendall(WATCH.replace(b"Host: x", b"Host: x\r\nUser-Agent: client/1\r\nAccept: application/json"))
            await until_seen(sock, b"\r\n\r\n")

    def _held(self) -> int:
        """Bytes that the server's side holds, without what OpenSSL allocates itself."""
        gc.collect()
        rooms = [tracemalloc.Filter(True, f"{Path(room.__file__ or '').parent}/*") for room in (kapi, twisted, OpenSSL)]
        return sum(found.size for found in tracemalloc.take_snapshot().filter_traces(rooms).statistics("filename"))

    async def test_an_idle_watch_keeps_little(self) -> None:
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        await self._watches(5)
        before = self._held()
        await self._watches(30)
        self.assertLess((self._held() - before) / 30, 10_000)


class SlowReaders(SocketCase):
    async def test_one_that_does_not_read_is_cut_off_and_counted_and_others_do_not_notice(self) -> None:
        cache = self.api.caches.find(GroupResource("", "configmaps"))
        assert cache is not None
        cache.max_queued_events = 50
        slow, quick = await self.client(receive_buffer=4096), await self.client()
        for sock in (slow, quick):
            sock.sendall(WATCH)
            await until_seen(sock, b"\r\n\r\n")
        seen, number = b"", 0
        while not cache.terminated:
            number += 1
            self.assertLess(number, 500, "nobody is cut off")
            name = f"n{number:03}"
            self.assertEqual((await self.asked("POST", MAPS, config_map(name, 100_000))).code, 201)
            self.clock.advance(0.001)
            seen = (await until_seen(quick, f'"name":"{name}"'.encode(), seen))[-200:]
        self.assertEqual((cache.terminated, cache.watches), (1, 1))
        data = await until_seen(slow, b"\r\n0\r\n\r\n")  # what was on its way still arrives, and then an end
        self.assertIn(b'"name":"n001"', data)
        self.assertNotIn(f'"name":"{name}"'.encode(), data)
        await self.asked("POST", MAPS, config_map("after"))
        self.clock.advance(0.001)
        await until_seen(quick, b'"name":"after"')

    async def test_one_that_never_reads_again_loses_its_connection(self) -> None:
        cache = self.api.caches.find(GroupResource("", "configmaps"))
        assert cache is not None
        cache.max_queued_events = 5
        slow = await self.client(receive_buffer=4096)
        next(iter(self.connections.open)).transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        slow.sendall(WATCH)
        await until_seen(slow, b"\r\n\r\n")
        for number in range(20):
            await self.asked("POST", MAPS, config_map(f"n{number}", 100_000))
            self.clock.advance(0.001)

        def cut_off() -> bool:
            self.clock.advance(0.001)  # a turn of the reactor may have been over in the middle
            return bool(cache.terminated)

        await self.until(cut_off)
        self.assertEqual(cache.terminated, 1)
        await self.pass_time(91 + 16)
        await self.until(lambda: not self.connections.open)
