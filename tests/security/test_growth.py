"""What clients name must not pile up in the server (class 7)."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import Attacker, memory


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    """One of its own: memory that others have left free would hide what grows, or be cut into pieces."""
    process = ForkedServer().start()
    yield process
    assert process.stop() == 0


def series(admin: Attacker) -> int:
    return admin.ask("GET", "/metrics").body.count(b"\n")


def flood(admin: Attacker, start: int, count: int) -> None:
    """Requests that differ in everything a client may choose, on one connection."""
    connection = http.client.HTTPSConnection(admin.host, admin.port, context=admin.context, timeout=120)
    token = {"Authorization": f"Bearer {admin.token}"}
    with closing(connection):
        for number in range(start, start + count):
            method, path, headers = (
                ("GET", f"/apis/g{number}.example.com/v{number}/things{number}", {}),
                ("GET", f"/nosuch/{number}", {}),
                ("GET", f"/api/v1/namespaces/n{number}/pods/p{number}/sub{number}", {}),
                (f"VERB{number}", "/api/v1/pods", {}),
                ("GET", f"/api/v1/namespaces/n{number}/configmaps/c?watch={number}&x{number}=1", {}),
                ("GET", "/api/v1/namespaces/x/configmaps/c", {"Authorization": f"Bearer wrong{number}"}),
                (
                    "GET",
                    "/api/v1/namespaces/x/configmaps/c",
                    {"Impersonate-User": f"u{number}", "User-Agent": f"a/{number}"},
                ),
                (
                    "GET",
                    f"/api/v1/configmaps?labelSelector=a%3D{number}&limit=1",
                    {"Accept": f"application/json;q=0.{number}"},
                ),
            )[number % 8]
            connection.request(method, path, headers=token | headers)
            connection.getresponse().read()


def test_metrics_and_memory_do_not_grow_with_what_clients_name(server: ServerProcess, admin: Attacker) -> None:
    """CVE-2020-8552.  A run first, so that what is made once is there and bounded caches are full."""
    assert server.process is not None
    flood(admin, 0, 16_000)
    lines, size = series(admin), memory(server.process.pid)
    flood(admin, 16_000, 8_000)
    assert series(admin) - lines < 50
    growth = memory(server.process.pid) - size
    print(f"{growth >> 10} KiB more")
    assert growth < 2 << 20
