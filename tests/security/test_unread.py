"""Clients that do not read: what waits for all of them has the bound that the flag names, whatever they ask for."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import Attacker, memory, most_until_rest

MAPS = "/api/v1/namespaces/default/configmaps"
CLIENTS, EVENTS, SIZE = 120, 12, 900_000
FEW_CLIENTS = 30  # of lists that are made for each client: without a bound they would hold 320 MB
LIMIT = 16 << 20  # bytes, of --max-pending-bytes
#: what else so many connections and the making of a few large objects take
SPARE = 48 << 20
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
UPGRADE = (
    "Connection: Upgrade", "Upgrade: websocket", "Origin: https://x", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: " + base64.b64encode(b"a key of sixteen").decode(),
)  # fmt: skip


@pytest.fixture(scope="module")
def bounded() -> Iterator[ServerProcess]:
    process = ForkedServer(f"--max-pending-bytes={LIMIT}", "--redis-compaction-interval=5s").start()
    admin = Attacker(process, "admintoken")
    for number in range(EVENTS):
        admin.create(MAPS, config_map(number))
    yield process
    assert process.stop() == 0


def unread(admin: Attacker, path: str, *headers: str, method: str = "GET", body: bytes = b"") -> ssl.SSLSocket:
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(120)
    plain.connect((admin.host, admin.port))
    connection = admin.context.wrap_socket(plain, server_hostname=admin.host)
    connection.sendall(admin.head(path, *headers, method=method) + body)
    return connection


_texts = count()


def config_map(number: int) -> dict[str, object]:
    """With another text each time."""
    return {"metadata": {"name": f"m{number}"}, "data": {"text": f"{next(_texts)} ".ljust(SIZE, "a")}}


WATCH = f"{MAPS}?watch=1&resourceVersion=0"


def most_while_changed(admin: Attacker, path: str, headers: tuple[str, ...], clients: int) -> int:
    """The most resident bytes of the server while objects change that so many clients ask for and do not read."""
    process = admin.server.process
    assert process is not None
    with ExitStack() as opened:
        for number in range(clients):
            opened.enter_context(unread(admin, path.format(number), *headers))
        most = 0
        for number in range(EVENTS):
            admin.ask("PUT", f"{MAPS}/m{number}", config_map(number))  # or 429, when much waits
            most = max(most, memory(process.pid))
        return max(most, most_until_rest(process.pid))


@pytest.mark.parametrize(
    ("path", "headers", "clients"),
    [
        (WATCH, (), CLIENTS),
        (f"{WATCH}&labelSelector=a!%3Dt{{}}", (), CLIENTS),
        (WATCH, UPGRADE, CLIENTS),
        (WATCH, (f"Accept: {TABLE}",), CLIENTS),
        (WATCH, ("Accept: application/vnd.kubernetes.protobuf;stream=watch",), CLIENTS),
        (MAPS, (), CLIENTS),
        (MAPS, ("Accept: application/yaml",), FEW_CLIENTS),
    ],
    ids=[
        "watch",
        "watch with a selector of its own",
        "WebSocket",
        "watch as a Table",
        "watch as protobuf",
        "list",
        "list as YAML",
    ],
)
def test_clients_that_do_not_read_take_no_more_than_the_flag_allows(
    bounded: ServerProcess, path: str, headers: tuple[str, ...], clients: int
) -> None:
    admin = Attacker(bounded, "admintoken")
    with_one = most_while_changed(admin, path, headers, 1)
    with_all = most_while_changed(admin, path, headers, clients)
    print(f"{with_one >> 20} MB at most with one client, {with_all >> 20} with {clients}")
    assert with_all - with_one < LIMIT + SPARE
    assert admin.ask("GET", "/readyz").status == 200
