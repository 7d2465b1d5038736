"""Memory of a real server: what clients that do not read can hold, and what is left when they are gone."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess
from tests.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS, SIZE = 600, 8_000  # about 5 MB


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as process:
        yield process


class Client:
    def __init__(self, server: ServerProcess) -> None:
        self.context = ssl.create_default_context(cafile=str(server.authority))
        host, _, port = server.url.removeprefix("https://").partition(":")
        self.place = (host, int(port))
        self.connection = http.client.HTTPSConnection(*self.place, context=self.context, timeout=120)

    def ask(self, method: str, path: str, body: Any = None) -> bytes:
        headers = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
        self.connection.request(method, path, body and json.dumps(body), headers)
        response = self.connection.getresponse()
        data = response.read()
        assert response.status in (200, 201), data[:200]
        return data

    def unread(self, path: str, count: int) -> list[ssl.SSLSocket]:
        """Connections on which an answer is asked for and not read."""
        opened = []
        for _ in range(count):
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.connect(self.place)
            wrapped = self.context.wrap_socket(plain, server_hostname=self.place[0])
            wrapped.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admintoken\r\n\r\n".encode())
            opened.append(wrapped)
        return opened


def resident(server: ServerProcess) -> float:
    """MB."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def watches(client: Client) -> float:
    """Of ConfigMaps: how many the server has begun."""
    metrics = client.ask("GET", "/metrics").decode()
    found = re.findall(r'^apiserver_longrunning_requests\{.*resource="configmaps".*\} (\S+)$', metrics, re.M)
    return sum(map(float, found))


def test_unread_watches_and_lists_hold_little_and_nothing_of_it_stays(server: ServerProcess) -> None:
    client = Client(server)
    for number in range(OBJECTS):
        client.ask("POST", MAPS, {"metadata": {"name": f"c{number}"}, "data": {"text": "x" * SIZE}})
    for _ in range(3):
        client.ask("GET", MAPS)
    client.connection.close()
    before = resident(server)
    opened = client.unread(f"{MAPS}?watch=1&resourceVersion=0", 150)
    until(lambda: watches(client) >= 150)
    watched = resident(server)
    assert watched < before + 150 * 0.6, "a watch that is not read holds a few batches, not all objects"
    opened += client.unread(MAPS, 40)
    for connection in opened:
        connection.close()
    print(f"{before:.0f} MB before, {watched:.0f} MB with the watches")
    until(lambda: resident(server) <= 1.3 * before)


def test_nothing_stays_of_watches_with_long_selectors(server: ServerProcess) -> None:
    client = Client(server)
    before = resident(server)
    opened = []
    for number in range(500):
        values = ",".join(f"v{number}-{place}" for place in range(1600))
        opened += client.unread(f"{MAPS}?watch=1&resourceVersion=0&labelSelector=n%20in%20({values})", 1)
    watched = resident(server)
    for connection in opened:
        connection.close()
    print(f"{before:.0f} MB before, {watched:.0f} MB with the watches")
    until(lambda: resident(server) <= 1.3 * before)
