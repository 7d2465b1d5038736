"""However it is started, it is one server: the same log, flags, signals and exit codes.

The rows are the ways, the tests are the columns.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import ssl
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.certificates import self_signed
from tests.waiting import until

ROOT = Path(__file__).parents[2]
TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "--pidfile="]
TAC = ["--python", "etc/kapi.tac"]
#: control characters in a path: the ends of lines of several standards, and what steers a terminal
STEERING = ("%0a", "%0d", "%0b", "%1b[2J", "%c2%85", "%e2%80%a8", "%e2%80%ae", "%7f")


class Start:
    """A process that was started in one of the ways; its standard streams go to files."""

    def __init__(self, way: str, directory: Path, *flags: str, twistd: tuple[str, ...] = ("-n",)) -> None:
        directory.mkdir(exist_ok=True)
        self.data = directory / "data"
        self.stdout, self.stderr = directory / "stdout", directory / "stderr"
        all_flags = [f"--data-dir={self.data}", "--bind-address=127.0.0.1", "--secure-port=0", *flags]
        if "workers" in way:
            all_flags.append("--workers=2")
        environment = dict(os.environ)
        if way == "tac":
            environment["KAPI_FLAGS"] = shlex.join(all_flags)
            command = [*TWISTD, *twistd, *TAC]
        elif way.startswith("twistd"):
            command = [*TWISTD, *twistd, "kapi", *all_flags]
        else:
            command = [sys.executable, "-m", "kapi", *all_flags]
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=err, umask=0o022)

    def ready(self) -> Start:
        def told() -> bool:
            assert self.process.poll() is None, self.stderr.read_text()
            return "export KUBECONFIG=" in self.stdout.read_text()

        until(told)
        self.url = self.stdout.read_text().split("serving at ")[1].split()[0]
        self.context = ssl._create_unverified_context()
        return self

    def ask(self, path: str, token: str = "", body: object = None) -> int:
        """The status of a GET, or of a POST of the body."""
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)

    def run(self) -> tuple[int, str, str]:
        """Of one that ends by itself: its exit code, and what it has printed to standard output and to standard error."""
        return self.process.wait(120), self.stdout.read_text(), self.stderr.read_text()


@contextlib.contextmanager
def started(way: str, directory: Path, *flags: str, twistd: tuple[str, ...] = ("-n",)) -> Iterator[Start]:
    start = Start(way, directory, *flags, twistd=twistd)
    try:
        yield start
    finally:
        if start.process.poll() is None:
            start.process.kill()
            start.process.wait()


def write_pair(directory: Path, certificate: bytes, key: bytes) -> list[str]:
    """The flags that name the files."""
    (directory / "tls.crt").write_bytes(certificate)
    (directory / "tls.key").write_bytes(key)
    return [f"--tls-cert-file={directory / 'tls.crt'}", f"--tls-private-key-file={directory / 'tls.key'}"]


WAYS = ["kapi", "twistd", "tac", "workers"]
ways = pytest.mark.parametrize("way", WAYS)


@ways
def test_lines_in_json_a_reload_failures_and_sigterm(way: str, tmp_path: Path) -> None:
    """All lines of the log are JSON with klog's keys, and go to standard error; the audit log goes to standard output.

    Who starts beside it with the same port or directory, or with wrong flags, ends with one line for each fault.
    """
    policy = tmp_path / "policy"
    policy.write_text("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
    certificates = [self_signed("127.0.0.1") for _ in range(2)]
    pair = write_pair(tmp_path, *certificates[0])
    flags = ("-v=4", "--logging-format=json", "--audit-log-path=-", f"--audit-policy-file={policy}", *pair)
    with started(way, tmp_path / "server", *flags) as server:
        server.ready()
        port = server.url.rpartition(":")[2]
        address = ("127.0.0.1", int(port))
        with (
            started(way, tmp_path / "port", f"--secure-port={port}") as on_port,
            started(way, tmp_path / "data", f"--data-dir={server.data}") as on_data,
            started(way, tmp_path / "wrong", "--nosuch", "--v=-1") as wrong,
        ):
            assert server.ask("/version/%0a%1b[2Jforged") == 403
            write_pair(tmp_path, *certificates[1])
            server.process.send_signal(signal.SIGHUP)
            until(lambda: {ssl.get_server_certificate(address) for _ in range(4)} == {certificates[1][0].decode()})
            in_use = f"kapi: --secure-port: 127.0.0.1:{port} is in use by another process\n"
            assert on_port.run() == (1, "", in_use)
            assert on_data.run() == (1, "", f"kapi: --data-dir: {server.data} is in use by another kapi\n")
            assert wrong.run() == (1, "", "kapi: unknown flag: --nosuch\nkapi: -v must not be negative\n")
        assert server.end(signal.SIGTERM) == 0
        lines = [json.loads(line) for line in server.stderr.read_text().splitlines()]
        assert all({"ts", "caller", "msg"} <= line.keys() for line in lines)
        assert "Received SIGTERM, shutting down." in {line["msg"] for line in lines}
        assert [line for line in lines if line.get("path") == "/version/\n\x1b[2Jforged"]
        first, second, *events = server.stdout.read_text().splitlines()
        assert first == f"kapi is serving at {server.url}"
        assert second == f"export KUBECONFIG={server.data}/admin.kubeconfig"
        assert [event for event in map(json.loads, events) if "forged" in event["requestURI"]]


@pytest.mark.parametrize("way", [*WAYS, "twistd with workers"])
def test_verbosity_escaping_and_sigint(way: str, tmp_path: Path) -> None:
    """At verbosity 0 a start and a stop log nothing; what a module logs at its own is one line without control characters."""
    tokens = tmp_path / "tokens"
    tokens.write_text("admin,admin,1,system:masters\n")
    flags = ("-v=0", "--vmodule=request_log=2", "--log-text-split-stream", f"--token-auth-file={tokens}")
    with started(way, tmp_path / "server", *flags) as server:
        server.ready()
        service = {"service": {"namespace": "default", "name": "none"}, "group": "none.example.com", "version": "v1"}
        spec = {**service, "groupPriorityMinimum": 1, "versionPriority": 1}
        api = {"metadata": {"name": "v1.none.example.com"}, "spec": spec}
        assert server.ask("/apis/apiregistration.k8s.io/v1/apiservices", "admin", api) == 201
        for steering in STEERING:
            path = f"/apis/none.example.com/v1/{steering}2026-01-01T00:00:00+0000%20forged"
            until(lambda path=path: server.ask(path, "admin") == 503)  # type: ignore[misc]
        assert server.end(signal.SIGINT) == 0
        assert server.stderr.read_text() == ""
        _, _, *lines = server.stdout.read_bytes().decode().removesuffix("\n").split("\n")
        unavailable = [line for line in lines if " 503 " in line]  # a worker that does not know it yet answers 404
        assert len(unavailable) == len(STEERING)
        for line in lines:
            assert "GET /apis/none.example.com/v1/" in line and line.isprintable()
        for path in (server.data, *server.data.rglob("*")):
            assert not stat.S_IMODE(path.lstat().st_mode) & 0o077, path


@ways
def test_an_interrupt_of_the_start_ends_it_at_once(way: str, tmp_path: Path) -> None:
    pipe = tmp_path / "flags"
    os.mkfifo(pipe)
    with started(way, tmp_path / "server", f"--config-file={pipe}") as server:
        with pipe.open("w"):  # when the server reads it
            assert server.end(signal.SIGINT) == -signal.SIGINT
    assert server.stderr.read_text() == ""


@pytest.mark.parametrize("way", ["kapi", "tac", "workers"])
def test_a_stop_before_it_is_ready_is_no_failure(way: str, tmp_path: Path) -> None:
    """At the first moment at which it is known to listen: the hooks of the start still run."""
    with started(way, tmp_path / "server", "-v=2") as server:
        until(lambda: "Serving securely" in server.stderr.read_text())
        assert server.end(signal.SIGTERM) == 0
    said = server.stderr.read_text()
    assert "could not be started" not in said and "kapi: " not in said


@pytest.mark.parametrize("way", ["twistd", "tac", "twistd with workers"])
def test_twistd_says_where_the_log_is(way: str, tmp_path: Path) -> None:
    """As a daemon; what others have written there stays, and SIGUSR1 begins a new file."""
    log, pid = tmp_path / "log", tmp_path / "pid"
    log.write_text("before\n")
    twistd = (f"--logfile={log}", f"--pidfile={pid}")
    with started(way, tmp_path / "server", "-v=2", "--logging-format=json", twistd=twistd) as server:
        assert server.run() == (0, "", "")
        until(lambda: "Serving securely" in log.read_text())
        os.kill(int(pid.read_text()), signal.SIGUSR1)
        until((tmp_path / "log.1").exists)
        os.kill(int(pid.read_text()), signal.SIGTERM)
        until(lambda: not pid.exists())
    before, *lines = (tmp_path / "log.1").read_text().splitlines()
    assert before == "before"
    assert "Received SIGTERM, shutting down." in {
        json.loads(line)["msg"] for line in [*lines, *log.read_text().splitlines()]
    }


def test_why_a_daemon_could_not_start_is_in_its_log(tmp_path: Path) -> None:
    log, pid = tmp_path / "log", tmp_path / "pid"
    twistd = (f"--logfile={log}", f"--pidfile={pid}")
    flags = ("--redis-servers=redis://127.0.0.1:1", "--storage-initialization-timeout=0")
    with started("twistd", tmp_path / "server", *flags, twistd=twistd) as server:
        assert server.run() == (0, "", "")
        until(lambda: "redis://127.0.0.1:1: cannot connect" in log.read_text())
        until(lambda: not pid.exists())
