"""HTTP/2 over ALPN: requests, streams that idle, and connections that are sent elsewhere."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess

httpx = pytest.importorskip("httpx")
pytest.importorskip("h2")
pytestmark = pytest.mark.filterwarnings("ignore")
HEADERS = {"Authorization": "Bearer admintoken"}


def client(server: ServerProcess) -> Any:
    return httpx.Client(
        http2=True, base_url=server.url, headers=HEADERS, timeout=120, trust_env=False,
        verify=ssl.create_default_context(cafile=str(server.authority)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def sending_away() -> Iterator[ServerProcess]:
    process = ForkedServer("--goaway-chance=0.02").start()
    yield process
    process.stop()


def test_requests_and_a_large_body(server: ServerProcess) -> None:
    with client(server) as http:
        answer = http.get("/version")
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        body = {"metadata": {"name": "large"}, "data": {"k": "x" * 900_000}}
        assert http.post("/api/v1/namespaces/default/configmaps", json=body).status_code == 201
        assert len(http.get("/api/v1/namespaces/default/configmaps/large").json()["data"]["k"]) == 900_000
        assert http.delete("/api/v1/namespaces/default/configmaps/large").status_code == 200


def test_a_watch_shares_the_connection_with_requests(server: ServerProcess) -> None:
    with client(server) as http:
        query = "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Dshared&timeoutSeconds=20"
        with http.stream("GET", query) as stream:
            http.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "shared"}})
            lines = stream.iter_lines()
            assert json.loads(next(lines))["type"] == "ADDED"
            http.delete("/api/v1/namespaces/default/configmaps/shared")
            assert json.loads(next(lines))["type"] == "DELETED"


def test_goaway_loses_no_request(sending_away: ServerProcess) -> None:
    with client(sending_away) as http:
        codes = {http.get("/api/v1/namespaces/default").status_code for _ in range(300)}
    assert codes == {200}
