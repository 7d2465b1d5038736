"""SIGTERM while clients are at work: no request of theirs goes unanswered, and nobody who is idle is waited for."""

from __future__ import annotations

import http.client
import signal
import ssl
import threading
import time

import pytest

from tests.integration.server_process import ServerProcess

httpx = pytest.importorskip("httpx")
pytest.importorskip("h2")
pytestmark = [pytest.mark.xdist_group("stop"), pytest.mark.filterwarnings("ignore")]
HEADERS = {"Authorization": "Bearer admintoken"}
PATH = "/api/v1/namespaces/default"


class Http1(threading.Thread):
    """Asks over one connection until it is told that an answer was the last."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(daemon=True)
        host, _, port = server.url.removeprefix("https://").partition(":")
        context = ssl.create_default_context(cafile=str(server.authority))
        self.connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
        self.answered = 0
        self.error: Exception | None = None
        self.told = False

    def run(self) -> None:
        try:
            while not self.told:
                self.connection.request("GET", PATH, headers=HEADERS)
                answer = self.connection.getresponse()
                self.last = answer.read()
                assert answer.status == 200, (answer.status, answer.headers.items())
                self.answered += 1
                self.told = answer.will_close
        except Exception as error:
            self.error = error


class Http2(threading.Thread):
    """Asks over HTTP/2 until nobody listens any more."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(daemon=True)
        context = ssl.create_default_context(cafile=str(server.authority))
        self.client = httpx.Client(
            http2=True, base_url=server.url, headers=HEADERS, timeout=20, trust_env=False, verify=context
        )
        self.answered = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while True:
                assert self.client.get(PATH).status_code == 200
                self.answered += 1
        except Exception as error:
            self.error = error


def test_busy_clients_lose_no_request_and_idle_ones_are_not_waited_for() -> None:
    server = ServerProcess().start()
    try:
        idle = Http1(server)
        idle.connection.request("GET", PATH, headers=HEADERS)
        idle.connection.getresponse().read()
        time.sleep(2.5)  # idle, and not between two requests
        first = [Http1(server) for _ in range(6)]
        second = [Http2(server) for _ in range(2)]
        for client in (*first, *second):
            client.start()
        deadline = time.monotonic() + 20
        while min(client.answered for client in (*first, *second)) < 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        began = time.monotonic()
        assert server.end(signal.SIGTERM) == 0
        took = time.monotonic() - began
        for client in (*first, *second):
            client.join(20)
        assert [(client.told, client.error) for client in first] == [(True, None)] * 6
        for other in second:
            assert isinstance(other.error, httpx.ConnectError), repr(
                other.error
            )  # a new connection, that is: none was lost
        assert took < 2.5, took
        assert "Traceback" not in "".join(server.output)
    finally:
        server.stop()
