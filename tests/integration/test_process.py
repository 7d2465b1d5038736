"""Start and stop of the process: files, signals, and one clear line for whatever is wrong."""

from __future__ import annotations

import datetime
import json
import os
import resource
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from kapi.serving import pki
from tests import fork_server
from tests.integration.server_process import ForkedServer, ServerProcess, api_request, connect, run_to_end
from tests.store.servers import Server, free_port
from tests.waiting import MAX_WAIT, until


@pytest.fixture(scope="module")
def running() -> Iterator[ServerProcess]:
    process = ForkedServer().start()
    yield process
    process.stop()


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    """By a start of the interpreter, where what it prints and does before kapi's own code counts; else ``run_to_end``."""
    return subprocess.run(
        [sys.executable, "-m", "kapi", *flags],
        capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2],
    )  # fmt: skip


def test_first_start_makes_private_files(running: ServerProcess) -> None:
    assert stat.S_IMODE(running.data.stat().st_mode) == 0o700
    assert stat.S_IMODE(running.kubeconfig.stat().st_mode) == 0o600
    assert running.url in running.kubeconfig.read_text()
    assert f"export KUBECONFIG={running.kubeconfig}\n" in running.output


def test_readyz_answers_without_credentials(running: ServerProcess) -> None:
    connection = connect(running)
    connection.request("GET", "/readyz")
    assert connection.getresponse().read() == b"ok"
    connection.close()


def test_a_port_in_use_is_one_line(running: ServerProcess, tmp_path: Path) -> None:
    port = running.url.rpartition(":")[2]
    done = run_to_end(f"--data-dir={tmp_path / 'd'}", f"--secure-port={port}", "--bind-address=127.0.0.1")
    assert done == (1, f"kapi: --secure-port: 127.0.0.1:{port} is in use by another process\n")


def test_a_data_directory_in_use_is_one_line(running: ServerProcess) -> None:
    done = run_to_end(f"--data-dir={running.data}", "--secure-port=0")
    assert done == (1, f"kapi: --data-dir: {running.data} is in use by another kapi\n")


def test_a_kubeconfig_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """As on a full disk."""
    (tmp_path / "d" / "admin.kubeconfig.new" / "x").mkdir(parents=True)
    done = run_to_end(f"--data-dir={tmp_path / 'd'}", "--secure-port=0", "--bind-address=127.0.0.1")
    assert done == (1, f"kapi: --data-dir: {tmp_path / 'd' / 'admin.kubeconfig'}: Is a directory\n")


def test_wrong_flags_and_files_are_lines_without_a_traceback(tmp_path: Path) -> None:
    done = run("--nosuch", "--secure-port=-1")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 2
    done = fork_server.run([f"--data-dir={tmp_path / 'd'}", "--secure-port=0", "--token-auth-file=/nonexistent"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kapi: --token-auth-file: cannot read /nonexistent: No such file or directory\n"


def test_an_unreachable_redis_is_waited_for_then_one_line(tmp_path: Path) -> None:
    redis = f"redis://127.0.0.1:{free_port()}"
    arguments = (f"--data-dir={tmp_path / 'd'}", "--secure-port=0", f"--redis-servers={redis}")
    code, printed = run_to_end(*arguments, "--storage-initialization-timeout=2s")
    assert code == 1
    waiting, line = printed.splitlines()
    assert f"waiting for the store: {redis}: cannot connect" in waiting
    assert line.startswith(f"kapi: {redis}: cannot connect")
    code, printed = run_to_end(*arguments, "--storage-initialization-timeout=0")
    assert code == 1
    assert [line.startswith(f"kapi: {redis}: cannot connect") for line in printed.splitlines()] == [True]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_port_refuses_connections_until_the_store_is_there(workers: str) -> None:
    """A connection that was accepted earlier would get no answer for as long as the store is away."""
    port, address = free_port(), ("127.0.0.1", free_port())
    server = ForkedServer(
        f"--redis-servers=redis://127.0.0.1:{port}", f"--secure-port={address[1]}", f"--workers={workers}"
    )
    thread = threading.Thread(target=server.start)
    thread.start()
    store = None
    try:
        until(lambda: any("waiting for the store" in line for line in server.output))
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(address)
        store = Server(port=str(port))
        thread.join(MAX_WAIT)
        assert api_request(server, "GET", "readyz") == (200, b"ok")
    finally:
        thread.join(MAX_WAIT)
        server.stop()
        if store is not None:
            store.stop()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_of_two_that_start_on_one_port_the_later_one_ends_with_one_line(tmp_path: Path, workers: str) -> None:
    port, number = free_port(), free_port()
    late = fork_server.spawn(
        [
            f"--data-dir={tmp_path / 'd'}", "--bind-address=127.0.0.1", f"--secure-port={number}",
            f"--redis-servers=redis://127.0.0.1:{port}", f"--workers={workers}",
        ]
    )  # fmt: skip
    store = None
    try:
        assert "waiting for the store" in late.stdout.readline()
        with ForkedServer(f"--secure-port={number}") as first:
            store = Server(port=str(port), appendonly="yes", appendfsync="always")
            assert late.wait(MAX_WAIT) == 1
            assert api_request(first, "GET", "readyz") == (200, b"ok")
        line = f"kapi: --secure-port: 127.0.0.1:{number} is in use by another process"
        assert [each for each in late.stdout.read().splitlines() if each.startswith("kapi: ")] == [line]
    finally:
        late.kill()
        late.wait()
        late.stdout.close()
        if store is not None:
            store.stop()


def test_who_waits_for_a_redis_can_be_stopped(tmp_path: Path) -> None:
    redis = f"redis://127.0.0.1:{free_port()}"
    process = fork_server.spawn([f"--data-dir={tmp_path / 'd'}", "--secure-port=0", f"--redis-servers={redis}"])
    try:
        assert "waiting for the store" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, "maxmemory-policy"),
        ({"user": "default on nopass ~* +@all -@write"}, "the user default may not run DEL, HDEL, HSET, SET, XADD"),
        ({"rename_command": "XREAD KEPT"}, "the server does not have XREAD"),
        ({"requirepass": "secret"}, "NOAUTH"),
        ({"cluster_enabled": "yes"}, "cluster mode"),
    ],
)
def test_an_unsuitable_redis_is_one_line(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    redis = Server(**settings)
    try:
        code, printed = run_to_end(f"--data-dir={tmp_path / 'd'}", "--secure-port=0", f"--redis-servers={redis.url}")
    finally:
        redis.stop()
    assert code == 1
    lines = printed.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"kapi: {redis.url}: ") and words in lines[0]


def test_another_program_at_the_address_of_redis_is_one_line(tmp_path: Path) -> None:
    """However often it is tried again."""
    asked: list[bytes] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked.append(self.request.recv(100))
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = f"redis://127.0.0.1:{other.server_address[1]}"
        flags = [f"--data-dir={tmp_path / 'd'}", "--secure-port=0", f"--redis-servers={url}"]
        code, printed = run_to_end(*flags, "--storage-initialization-timeout=1s")
        other.shutdown()
    first, last = printed.splitlines()
    assert code == 1 and len(asked) > 2
    assert f"waiting for the store: {url}: " in first
    assert last.startswith(f"kapi: {url}: ") and "Protocol error" in last


def test_a_serving_certificate_that_has_expired_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=400)
    with monkeypatch.context() as then:
        then.setattr(pki, "now", lambda: past)
        files = pki.ensure(tmp_path / "old", ["localhost", "127.0.0.1"])
    server = ForkedServer(f"--tls-cert-file={files.serving}", f"--tls-private-key-file={files.serving_key}")
    server.start()
    assert server.end() == 0
    assert len([line for line in said(server) if f"{files.serving} has expired on" in line]) == 1


def said(server: ServerProcess) -> list[str]:
    return "".join(server.output).splitlines()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_it_takes_as_many_connections_as_the_system_allows(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        server = ServerProcess(directory=tmp_path).start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert server.process is not None
    assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    assert server.end() == 0


def announcement(server: ServerProcess) -> list[str]:
    """All that a person sees of a good start."""
    return [f"kapi is serving at {server.url}", f"export KUBECONFIG={server.kubeconfig}"]


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, ServerProcess), (signal.SIGINT, ForkedServer)])
def test_starts_and_stops_print_nothing_else(number: int, kind: type[ServerProcess], tmp_path: Path) -> None:
    server = kind(directory=tmp_path)
    for _ in range(2):
        server.output.clear()
        server.start()
        assert server.end(number) == 0
        assert said(server) == announcement(server)


def test_a_start_after_a_kill_prints_nothing_else(tmp_path: Path) -> None:
    server = ForkedServer(directory=tmp_path).start()
    server.end(signal.SIGKILL)
    server.output.clear()
    server.start()
    assert server.end() == 0
    assert said(server) == announcement(server)


def test_ctrl_c_reaches_the_stores_server_only_through_kapi(tmp_path: Path) -> None:
    """A terminal interrupts the whole process group; what is written until the end is acknowledged nevertheless."""
    server = ForkedServer("--shutdown-delay-duration=2s", directory=tmp_path).start()
    assert server.process is not None
    group = os.getpgid(server.process.pid)
    interrupted = [pid for pid in (server.process.pid, *children(server.process.pid)) if os.getpgid(pid) == group]
    headers = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
    connection = connect(server)
    try:
        connection.connect()
        for pid in interrupted:
            os.kill(pid, signal.SIGINT)
        answer, last = 200, False  # ``last``: a slow machine has taken as long as the delay
        deadline = time.monotonic() + MAX_WAIT
        while answer != 500:  # until it is known to be shutting down
            assert time.monotonic() < deadline
            connection.request("GET", "/readyz", headers=headers)
            response = connection.getresponse()
            answer, last = response.status, response.will_close
            response.read()
        for number in range(20):
            if last:
                break
            connection.request("POST", "/api/v1/namespaces", b'{"metadata":{"name":"late-%d"}}' % number, headers)
            response = connection.getresponse()
            assert (response.status, response.read()[:9]) == (201, b'{"kind":"')
            last = response.will_close
    finally:
        connection.close()
        assert server.end(0) == 0
    assert said(server) == announcement(server)


def test_an_interrupt_during_the_start_is_no_traceback(tmp_path: Path) -> None:
    """While most modules are imported the store's server comes up; both end."""
    server = subprocess.Popen(
        [sys.executable, "-m", "kapi", f"--data-dir={tmp_path}", "--secure-port=0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    log = tmp_path / "store" / "valkey.log"
    until(lambda: log.exists() or server.poll() is not None)
    processes = children(server.pid)
    server.send_signal(signal.SIGINT)
    _, errors = server.communicate(timeout=120)
    assert errors == ""
    assert server.returncode in (-signal.SIGINT, 0)  # the latter if it was ready before
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in processes))  # it writes its files before it ends


def test_sigterm_ends_watches_and_the_store_and_a_later_start_finds_everything() -> None:
    server = ForkedServer().start()
    try:
        authority = server.authority.read_bytes()
        headers = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
        connection = connect(server)
        connection.request("POST", "/api/v1/namespaces", b'{"metadata":{"name":"kept"}}', headers)
        assert connection.getresponse().read() and server.process is not None
        watching = connect(server)
        watching.request("GET", "/api/v1/namespaces?watch=1&resourceVersion=0", headers=headers)
        stream = watching.getresponse()
        assert stream.status == 200
        processes = children(server.process.pid)
        assert server.end(signal.SIGTERM) == 0  # within its bound
        assert b'"kept"' in stream.read()  # the stream ends properly: no IncompleteRead
        assert not any(os.path.exists(f"/proc/{child}") for child in processes)
        server.output.clear()
        server.start()
        assert server.authority.read_bytes() == authority
        connection = connect(server)
        connection.request("GET", "/api/v1/namespaces/kept", headers=headers)
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        server.stop()


def test_limits_of_a_request(running: ServerProcess) -> None:
    """A head beyond 1 MiB is refused, a body beyond 3 MiB is 413 with a Status."""
    connection = connect(running)
    headers = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/namespaces/default/configmaps", b'{"data":"' + b"x" * (4 << 20), headers)
    answer = connection.getresponse()
    assert answer.status == 413 and b"Request entity too large: limit is 3145728" in answer.read()
    connection.close()
    connection = connect(running)
    connection.putrequest("GET", "/version")
    connection.putheader("X-Long", "y" * (80 * 1024))
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()
    connection = connect(running)
    connection.putrequest("GET", "/version")
    connection.putheader("X-Long", "y" * (1200 * 1024))
    connection.endheaders()
    assert connection.getresponse().status == 431
    connection.close()


def test_expect_100_continue(running: ServerProcess) -> None:
    connection = connect(running)
    connection.putrequest("POST", "/api/v1/namespaces?dryRun=All")
    body = b'{"metadata":{"name":"expected"}}'
    for name, value in (
        ("Authorization", "Bearer admintoken"), ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))), ("Expect", "100-continue"),
    ):  # fmt: skip
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.sock.recv(100).startswith(b"HTTP/1.1 100 Continue")
    connection.send(body)
    assert connection.getresponse().status == 201
    connection.close()


def test_the_log_begins_with_version_flags_and_where_it_serves(tmp_path: Path) -> None:
    server = ForkedServer(
        "-v=4", "--livez-grace-period=10s", "--log-flush-frequency=1s", "--redis-prefix=x", directory=tmp_path
    ).start()
    try:
        host, _, port = server.url.removeprefix("https://").partition(":")
        with socket.create_connection((host, int(port))) as plain:
            plain.sendall(b"\x16\x03\x01\x00\x05hello")
            plain.recv(100)
    finally:
        assert server.stop() == 0
    lines = [line.partition("] ")[2] or line for line in said(server)]
    assert lines[0].startswith("Version: v1.36")
    assert 'FLAG: --redis-prefix="x"' in lines and 'FLAG: --livez-grace-period="10s"' in lines
    assert f"Serving securely on 127.0.0.1:{port}" in lines
    assert "--log-flush-frequency has no effect: lines are written at once" in lines
    assert any(line.startswith("http: TLS handshake error from 127.0.0.1: ") for line in lines)


def test_the_version_is_shown_short_and_whole() -> None:
    assert run("--version").stdout == f"kapi {version('kapi')}, Kubernetes 1.36\n"
    assert json.loads(run_to_end("--version=raw")[1])["minor"] == "36"
    assert run_to_end("--version=v1.2.3")[0] == 1


#: of upstream's hooks; what is not here: loopback-serving-certificate
UPSTREAM_CHECKS = """
    aggregator-reload-proxy-client-cert apiservice-discovery-controller apiservice-openapi-controller
    apiservice-openapiv3-controller apiservice-registration-controller apiservice-status-local-available-controller
    apiservice-status-remote-available-controller apiservice-wait-for-first-sync bootstrap-controller crd-informer-synced
    generic-apiserver-start-informers kube-apiserver-autoregistration peer-endpoint-reconciler-controller
    priority-and-fairness-config-consumer
    priority-and-fairness-config-producer priority-and-fairness-filter rbac/bootstrap-roles
    scheduling/bootstrap-system-priority-classes start-apiextensions-controllers start-apiextensions-informers
    start-apiserver-admission-initializer start-cluster-authentication-info-controller start-kube-aggregator-informers
    start-kube-apiserver-identity-lease-controller start-kube-apiserver-identity-lease-garbage-collector
    start-kubernetes-service-cidr-controller start-legacy-token-tracking-controller start-service-ip-repair-controllers
    start-system-namespaces-controller storage-object-count-tracker-hook storage-readiness
""".split()


def test_health_checks_and_pages_have_upstreams_names(running: ServerProcess) -> None:
    for kind in ("readyz", "livez"):
        code, body = api_request(running, "GET", f"{kind}?verbose")
        assert code == 200
        there = {line.removeprefix("[+]").removesuffix(" ok") for line in body.decode().splitlines()}
        assert {f"poststarthook/{name}" for name in UPSTREAM_CHECKS} <= there
        assert {"ping", "log", "etcd", "autoregister-completion"} <= there
    assert api_request(running, "GET", "readyz/poststarthook/crd-informer-synced") == (200, b"ok")
    assert b"\napiserver flagz" in api_request(running, "GET", "flagz")[1]
    assert b"Paths: " in api_request(running, "GET", "statusz")[1]

    def is_told_of() -> bool:
        leases = json.loads(api_request(running, "GET", "apis/coordination.k8s.io/v1/namespaces/kube-system/leases")[1])
        return any(item["metadata"]["name"].startswith("apiserver-") for item in leases["items"])

    until(is_told_of)


def test_a_profile_of_the_running_server_and_its_verbosity(running: ServerProcess, tmp_path: Path) -> None:
    code, body = api_request(running, "GET", "debug/pprof/profile?seconds=0.3")
    assert code == 200 and body[:2] == b"\x1f\x8b"
    assert api_request(running, "GET", "debug/pprof/profile?seconds=never")[0] == 400
    assert b"profile" in api_request(running, "GET", "debug/pprof/")[1]
    code, body = api_request(running, "PUT", "debug/flags/v", 4)
    assert (code, body) == (200, b"successfully set klog.logging.verbosity to 4")
    assert api_request(running, "PUT", "debug/flags/v", 0)[0] == 200
    closed = ForkedServer("--profiling=false", directory=tmp_path).start()
    try:
        assert api_request(closed, "GET", "debug/pprof/")[0] == 404
    finally:
        closed.stop()
