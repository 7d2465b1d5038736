"""Servers that are forked: as others, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fork_server
from tests.integration.server_process import ForkedServer, api_request
from tests.waiting import until

_CHECKOUT = Path(__file__).parents[1]
_ENDS_WITHOUT_A_WORD = """
import os, sys
from tests.integration.server_process import ForkedServer
server = ForkedServer("--controllers=").start()
print(server.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkedServer]:
    process = ForkedServer("--controllers=").start()
    yield process
    process.stop()


def test_it_serves_and_ends_with_its_code(server: ForkedServer) -> None:
    assert api_request(server, "GET", "api/v1/namespaces/default")[0] == 200
    assert server.running
    other = ForkedServer("--controllers=").start()
    assert other.process is not None and other.process.pid != server.process.pid
    assert other.end() == 0 and not other.running
    assert api_request(server, "GET", "api/v1/namespaces/default")[0] == 200
    other.stop()


def test_what_it_writes_is_seen_and_how_it_failed() -> None:
    done = fork_server.spawn(["--no-such-flag"])
    assert "unknown flag: --no-such-flag" in done.stdout.read()
    assert done.wait() == 1 == done.poll()
    done.stdout.close()


def test_it_has_environment_and_directory_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("apiVersion: v1\nkind: Config\ncurrent-context: here\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "config")
    done = fork_server.spawn(["config", "current-context"])
    assert done.stdout.read() == "here\n"
    assert done.wait() == 0
    done.stdout.close()


def test_a_command_has_streams_of_its_own(tmp_path: Path) -> None:
    config = "apiVersion: v1\nkind: Config\ncurrent-context: there\n"
    (tmp_path / "config").write_text(config)
    done = fork_server.run(["config", "current-context"], env={"KUBECONFIG": str(tmp_path / "config")})
    assert (done.stdout, done.stderr, done.returncode) == ("there\n", "", 0)
    done = fork_server.run(["config", "current-context"], env={"KUBECONFIG": str(tmp_path / "none")})
    assert (done.stdout, done.stderr, done.returncode) == ("", "error: current-context is not set\n", 1)
    done = fork_server.run(["create", "-f", "-", "--server=http://127.0.0.1:1"], stdin="kind: [")
    assert "yaml" in done.stderr.lower() and done.returncode == 1


def test_it_has_a_reactor_and_signals_of_its_own() -> None:
    server = ForkedServer("--controllers=").start()
    try:
        status = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
        ignored = next(int(line.split()[1], 16) for line in status if line.startswith("SigIgn:"))
        assert not ignored & 1 << signal.SIGINT - 1
        assert server.end(signal.SIGINT) == 0
    finally:
        server.stop()


def test_a_killed_one_is_known_to_be_so(server: ForkedServer) -> None:
    victim = ForkedServer("--controllers=").start()
    assert victim.end(signal.SIGKILL) == -signal.SIGKILL
    victim.stop()


def test_it_ends_with_who_asked_for_it() -> None:
    program = [sys.executable, "-c", _ENDS_WITHOUT_A_WORD]
    done = subprocess.run(program, cwd=_CHECKOUT, capture_output=True, text=True, timeout=240)
    pid = int(done.stdout.split()[0])
    until(lambda: not os.path.exists(f"/proc/{pid}"))
