"""/logs: files and directories below one directory, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from kapi.filters.chain import FilterChain
from kapi.filters.request_info import request_info
from kapi.observability.log_files import LogFiles
from kapi.serving.generic import GenericServer, NotFound
from kapi.serving.run import RequestRunner
from kapi.serving.site import Site
from kapi.testing.http import MemoryRequest
from tests.integration.server_process import ForkedServer, api_request


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = tmp_path / "log"
    (directory / "pods").mkdir(parents=True)
    (directory / "kern.log").write_text("one\ntwo\n")
    (directory / "pods" / "a&b.log").write_text("three\n")
    (tmp_path / "secret").write_text("secret")
    os.mkfifo(directory / "pipe")
    return directory


def ask(directory: Path, path: str, method: str = "GET") -> MemoryRequest:
    server = GenericServer("logs", NotFound())
    server.app.include(LogFiles(directory))
    request = MemoryRequest(method, path, {}, b"")
    RequestRunner(FilterChain([request_info], Site(server, Clock()).answer), Clock()).serve(request)  # type: ignore[arg-type]
    return request


def test_directories_are_listed(logs: Path) -> None:
    answer = ask(logs, "/logs/")
    assert (answer.code, b'<a href="kern.log">kern.log</a>' in answer.written) == (200, True)
    assert b'<a href="a%26b.log">a&amp;b.log</a>' in ask(logs, "/logs/pods/").written
    moved = ask(logs, "/logs/pods")
    assert (moved.code, moved.responseHeaders.getRawHeaders("Location")) == (301, ["pods/"])


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/logs/../secret", 400),
        ("/logs/pods/../../secret", 400),
        ("/logs/%2e%2e/secret", 400),
        ("/logs/absent", 404),
        ("/logs/kern.log/x", 404),
        ("/logs/pipe", 404),
        ("/logs/" + "x" * 256, 404),
        ("/logs/a%00b", 400),
    ],
)
def test_what_is_not_there(logs: Path, path: str, code: int) -> None:
    answer = ask(logs, path)
    assert answer.code == code and b"secret" not in answer.written


def test_nothing_is_written(logs: Path) -> None:
    assert ask(logs, "/logs/kern.log", "DELETE").code == 405
    assert (logs / "kern.log").exists()


def test_a_file_over_the_wire() -> None:
    found = next(
        (each for each in sorted(Path("/var/log").glob("*.log")) if each.is_file() and each.stat().st_size), None
    )
    if found is None:
        pytest.skip("there is no log file on this machine")
    server = ForkedServer("--enable-logs-handler").start()
    try:
        assert api_request(server, "GET", f"logs/{found.name}") == (200, found.read_bytes())
        assert api_request(server, "GET", "logs/no-such-file")[0] == 404
    finally:
        assert server.stop() == 0
