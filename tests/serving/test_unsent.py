"""What a client did not take is not kept when it has gone."""

from __future__ import annotations

import gc
import json
import socket
from collections import deque
from functools import partial
from typing import Any

import h2.events
from twisted.internet.threads import deferToThread

from tests.serving.sockets import Client2, SocketCase, answer, ask

SIZE = 400_000  # bytes of a large object
MAPS = "/api/v1/namespaces/default/configmaps"


def unsent(transport: Any) -> int:
    """Bytes that a transport holds, itself or in its lists."""
    held = list(vars(transport).values())
    held += [part for each in held if isinstance(each, (list, deque)) for part in each]
    return sum(len(each) for each in held if isinstance(each, (bytes, bytearray)))


class Unread(SocketCase):
    """Clients that ask and do not read; the sockets take next to nothing."""

    async def unread(self, count: int, request: str) -> list[Any]:
        """Their transports."""
        found = []
        for _ in range(count):
            before = set(self.connections.open)
            client = await self.client(receive_buffer=4096)
            (connection,) = self.connections.open - before
            connection.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            await deferToThread(client.sendall, f"GET {request}Host: x\r\n\r\n".encode())
            found.append(connection.transport)
        return found

    async def unread2(self, count: int, path: str) -> list[Any]:
        """The same over HTTP/2; the windows are closed, too."""
        found = []
        for _ in range(count):
            before = set(self.connections.open)
            client = Client2(await self.client("h2", receive_buffer=4096))
            client.begin("GET", path)
            (connection,) = self.connections.open - before
            await self.until(partial(self.has_streams, connection))
            found.append(connection.transport)
        return found

    @staticmethod
    def has_streams(connection: Any) -> bool:
        return connection.channel is not None and bool(connection.channel.streams)

    async def change(self, number: int) -> None:
        body = json.dumps({"metadata": {"name": "m"}, "data": {"text": chr(97 + number) * SIZE}}).encode()
        request = f"PUT {MAPS}/m" if number else f"POST {MAPS}"
        self.assertIn((await ask(self.writer, request, body))[0], (200, 201))
        self.clock.advance(0)

    async def test_an_event_of_many_watches_is_in_memory_once_and_counts_once(self) -> None:
        """Whatever the protocol: in the connections, in the streams and in the queues."""
        pending = self.api.caches.pending = self.api.runner.pending
        self.writer = await self.client()
        watch = f"{MAPS}?watch=1&resourceVersion=0"
        socket_ = (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nOrigin: https://x\r\n"
            "Sec-WebSocket-Key: YQ==\r\nSec-WebSocket-Version: 13\r\n"
        )
        await self.unread(8, f"{watch} HTTP/1.1\r\n")
        await self.unread(8, f"{watch} HTTP/1.1\r\n{socket_}")
        await self.unread2(8, watch)
        for number in range(10):
            await self.change(number)
        self.assertEqual((len(self.api.runner.watches), pending.cut_off), (24, 0))
        self.assertGreater(pending.size, 9 * SIZE)
        self.assertLess(pending.size, 14 * SIZE)

    async def test_answers_of_their_own_are_bounded_together_and_the_oldest_end(self) -> None:
        pending = self.api.runner.pending
        self.writer = await self.client()
        await self.change(0)
        pending.limit = 4 * SIZE
        yaml = f"{MAPS}/m HTTP/1.1\r\nAccept: application/yaml\r\n"
        transports = []
        for _ in range(8):
            (transport,) = await self.unread(1, yaml)
            await self.until(partial(getattr, transport, "unsent_bytes"))
            transports.append(transport)
            await self.pass_time(1)
            self.assertLess(pending.size, 6 * SIZE)
        await self.pass_time(3)
        self.assertLessEqual(pending.size, pending.limit)
        gone = [transport.disconnected for transport in transports]
        self.assertEqual(gone, [True] * sum(gone) + [False] * (8 - sum(gone)))
        self.assertTrue(3 <= sum(gone) <= 6, gone)
        self.assertEqual((await ask(self.writer, f"GET {MAPS}/m"))[0], 200)

    async def test_streams_are_bounded_as_connections_are(self) -> None:
        """Of one connection, which itself takes what it is sent."""
        self.writer = await self.client()
        await self.change(0)
        self.api.runner.pending.limit = 2 * SIZE
        client = Client2(await self.client("h2"))
        streams = [client.begin("GET", f"{MAPS}?limit={number + 1}") for number in range(6)]
        for stream in streams:
            await client.until(h2.events.ResponseReceived, stream)
        await self.pass_time(4)
        self.assertLessEqual(self.api.runner.pending.size, 2 * SIZE)
        await client.until(h2.events.StreamReset, streams[0])
        self.assertEqual((await ask(self.writer, f"GET {MAPS}/m"))[0], 200)

    async def test_nothing_is_counted_when_all_have_gone(self) -> None:
        pending = self.api.caches.pending = self.api.runner.pending
        self.writer = await self.client()
        watch = f"{MAPS}?watch=1&resourceVersion=0"
        await self.unread(2, f"{watch} HTTP/1.1\r\n")
        await self.unread2(2, watch)
        for number in range(3):
            await self.change(number)
        await self.unread(2, f"{MAPS} HTTP/1.1\r\n")
        self.assertGreater(pending.size, SIZE)
        for connection in self.connections.open:
            connection.transport.abortConnection()
        await self.until(lambda: not self.connections.open)
        gc.collect()
        self.assertEqual(pending.size, 0)


class Unsent(SocketCase):
    def has_unsent(self, others: set[Any]) -> bool:
        self.clock.advance(0)
        return any(unsent(connection.transport) for connection in self.connections.open - others)

    async def large_objects(self) -> None:
        known = await self.client()
        for number in range(40):
            made = json.dumps({"metadata": {"name": f"m{number}"}, "data": {"text": "x" * 200_000}})
            self.assertEqual((await ask(known, f"POST {MAPS}", made.encode()))[0], 201)

    async def test_of_a_list_one_part_waits_for_its_client_however_large_the_objects_are(self) -> None:
        await self.large_objects()
        others = set(self.connections.open)
        client = await self.client(receive_buffer=4096)
        client.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await self.until(lambda: self.has_unsent(others))
        (connection,) = self.connections.open - others
        self.assertLess(unsent(connection.transport), 600_000)
        code, body = await deferToThread(answer, client)
        self.assertEqual((code, len(json.loads(body)["items"])), (200, 40))

    async def test_nothing_is_kept_for_a_client_that_went_without_reading(self) -> None:
        await self.large_objects()
        others = set(self.connections.open)
        for request in (
            f"GET {MAPS} HTTP/1.1\r\n",
            f"GET {MAPS}?watch=1&resourceVersion=0 HTTP/1.1\r\n",
            f"GET {MAPS}?watch=1&resourceVersion=0 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Origin: https://x\r\nSec-WebSocket-Key: YQ==\r\nSec-WebSocket-Version: 13\r\n",
        ):
            client = await self.client(receive_buffer=4096)
            client.sendall(f"{request}Host: x\r\n\r\n".encode())
            await self.until(lambda: self.has_unsent(others))
            (connection,) = self.connections.open - others
            transport = connection.transport
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            await self.until(lambda: self.connections.open == others)
            self.assertEqual(unsent(transport), 0, request)
