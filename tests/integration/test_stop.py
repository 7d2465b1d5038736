"""SIGTERM while clients are at work: no request of theirs goes unanswered, and nobody who is idle is waited for."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import ssl
import threading
import time
from pathlib import Path

import pytest

from kapi.serving import connections as limits
from kapi.testing.process import KapiProcess
from tests.integration.server_process import ForkedServer, ServerProcess, connect
from tests.integration.test_workers import children
from tests.store.servers import Server
from tests.waiting import until

httpx = pytest.importorskip("httpx")
pytest.importorskip("h2")
pytestmark = pytest.mark.filterwarnings("ignore")
HEADERS = {"Authorization": "Bearer admintoken"}
PATH = "/api/v1/namespaces/default"


class Http1(threading.Thread):
    """Asks over one connection until it is told that an answer was the last."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(daemon=True)
        self.connection = connect(server)
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
            http2=True, base_url=server.url, headers=HEADERS, timeout=120, trust_env=False, verify=context
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
    server = ForkedServer().start()
    try:
        idle = Http1(server)
        idle.connection.request("GET", PATH, headers=HEADERS)
        idle.connection.getresponse().read()
        time.sleep(2.5)  # idle, and not between two requests
        first = [Http1(server) for _ in range(6)]
        second = [Http2(server) for _ in range(2)]
        for client in (*first, *second):
            client.start()
        until(lambda: min(client.answered for client in (*first, *second)) >= 20)
        began = time.monotonic()
        assert server.end(signal.SIGTERM) == 0
        took = time.monotonic() - began
        for client in (*first, *second):
            client.join(120)
        assert [(client.told, client.error) for client in first] == [(True, None)] * 6
        for other in second:
            assert isinstance(other.error, httpx.ConnectError), repr(
                other.error
            )  # a new connection, that is: none was lost
        assert took < limits.CLOSE_TIMEOUT, took
        assert "Traceback" not in "".join(server.output)
    finally:
        server.stop()


def ask(server: KapiProcess, path: str) -> tuple[int, bytes]:
    """As the administrator that the kubeconfig names, over a connection of its own."""
    connection = connect(server, admin=True)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def addresses(server: KapiProcess) -> set[str]:
    _, body = ask(server, "/api/v1/namespaces/default/endpoints/kubernetes")
    return {one["ip"] for subset in json.loads(body)["subsets"] for one in subset["addresses"]}


def test_a_server_that_stops_is_withdrawn_at_once_and_serves_on_for_the_delay(tmp_path: Path) -> None:
    redis = Server(appendonly="yes", appendfsync="always")
    names = {"first": "192.0.2.1", "second": "192.0.2.2"}
    servers = [
        ForkedServer(
            f"--redis-servers={redis.url}", f"--advertise-address={address}", f"--cert-dir={tmp_path / name / 'data/pki'}",
            "--shutdown-delay-duration=8s", directory=tmp_path / name,
        )
        for name, address in names.items()
    ]  # fmt: skip
    first, second = servers
    try:
        (tmp_path / "second" / "data").mkdir(parents=True)
        first.start()
        shutil.copytree(first.data / "pki", second.data / "pki")
        second.start()
        until(lambda: addresses(first) == set(names.values()))
        assert second.process is not None
        began = time.monotonic()
        second.process.send_signal(signal.SIGTERM)
        until(lambda: ask(second, "/readyz")[0] == 500)
        until(lambda: addresses(second) == {names["first"]})
        assert ask(second, "/api/v1/namespaces/default")[0] == 200
        assert second.process.wait(120) == 0
        assert time.monotonic() - began > 7.9
        first.end(signal.SIGKILL)  # without its delay
    finally:
        for server in servers:
            server.stop()
        redis.stop()


def test_watches_end_within_their_grace_period_and_requests_go_on_meanwhile(tmp_path: Path) -> None:
    server = ForkedServer("--shutdown-watch-termination-grace-period=2s", directory=tmp_path).start()
    try:
        watches = []
        for _ in range(3):
            client = Http1(server)
            client.connection.request("GET", "/api/v1/configmaps?watch=1", headers=HEADERS)
            watches.append(client.connection.getresponse())
        assert server.end(signal.SIGTERM) == 0
        for answer in watches:
            assert b'"ERROR"' not in answer.read()  # to its end, or http.client would complain
        assert "rror" not in "".join(server.output)
    finally:
        server.stop()


def test_who_stops_all_processes_does_not_take_the_store_from_the_server(tmp_path: Path) -> None:
    server = ForkedServer("--shutdown-delay-duration=8s", directory=tmp_path).start()
    try:
        assert server.process is not None
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
        assert children
        client = Http1(server)
        client.connection.request("GET", "/api/v1/configmaps?watch=1", headers=HEADERS)
        watch = client.connection.getresponse()
        for pid in children:
            os.kill(int(pid), signal.SIGTERM)
        server.process.send_signal(signal.SIGTERM)
        made = http.client.HTTPSConnection(
            client.connection.host, client.connection.port, context=client.connection._context, timeout=120
        )
        body = json.dumps({"metadata": {"name": "late"}})
        made.request("POST", f"{PATH}/configmaps", body, {**HEADERS, "Content-Type": "application/json"})
        assert made.getresponse().status == 201
        assert server.process.wait(120) == 0
        events = watch.read()
        assert b'"late"' in events and b'"ERROR"' not in events
        assert "rror" not in "".join(server.output)
    finally:
        server.stop()


def test_a_second_signal_ends_the_server_at_once(tmp_path: Path) -> None:
    server = ForkedServer("--shutdown-delay-duration=60s", directory=tmp_path).start()
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    until(lambda: ask(server, "/readyz")[0] == 500)
    assert server.end() == 1
    del server.flags[-1]
    assert server.start().end() == 0
    server.stop()


def test_two_signals_at_once_end_the_server_without_a_traceback(tmp_path: Path) -> None:
    server = ForkedServer(directory=tmp_path).start()
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGINT)
    server.process.send_signal(signal.SIGCONT)
    assert server.process.wait(120) == 1
    server.stop()
    assert "Traceback" not in "".join(server.output)


def test_a_second_signal_ends_all_workers_at_once(tmp_path: Path) -> None:
    server = ForkedServer("--workers=2", "--shutdown-delay-duration=60s", directory=tmp_path).start()
    assert server.process is not None
    workers = children(server.process.pid)
    assert len(workers) == 2
    server.process.send_signal(signal.SIGTERM)
    until(lambda: ask(server, "/readyz")[0] == 500)
    assert server.end() == 1
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    server.stop()
    assert "Traceback" not in "".join(server.output)


def test_who_stops_all_processes_does_not_end_workers_before_their_requests(tmp_path: Path) -> None:
    server = ForkedServer("--workers=2", "--shutdown-delay-duration=1s", directory=tmp_path).start()
    try:
        assert server.process is not None
        clients = [Http1(server) for _ in range(4)]
        for client in clients:
            client.start()
        until(lambda: all(client.answered for client in clients))
        for pid in (*children(server.process.pid), server.process.pid):
            os.kill(pid, signal.SIGTERM)
        for client in clients:
            client.join(120)
            assert client.error is None and client.told
        assert server.process.wait(120) == 0
        assert "Traceback" not in "".join(server.output)
    finally:
        server.stop()
