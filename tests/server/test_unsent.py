"""What a client did not take is not kept when it has gone."""

from __future__ import annotations

import json
import socket
from typing import Any

from twisted.internet.threads import deferToThread

from tests.server.sockets import SocketCase, answer, ask

MAPS = "/api/v1/namespaces/default/configmaps"


def unsent(transport: Any) -> int:
    """Bytes that a transport holds, itself or in its lists."""
    held = list(vars(transport).values())
    held += [part for each in held if isinstance(each, list) for part in each]
    return sum(len(each) for each in held if isinstance(each, (bytes, bytearray)))


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
