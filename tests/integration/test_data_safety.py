"""What an operator trusts with data: a disk that fills up, a copy taken while kapi runs."""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess, connect
from tests.waiting import until

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def running() -> Iterator[ServerProcess]:
    process = ForkedServer("--controllers=").start()
    yield process
    process.stop()


class Client:
    """One connection as admin; a lost connection counts as no answer."""

    def __init__(self, server: ServerProcess) -> None:
        self._connection = connect(server)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
        self._connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def create(self, name: str, text: str = "") -> tuple[int, Any]:
        return self.ask("POST", CONFIGMAPS, {"metadata": {"name": name}, "data": {"text": text}})

    def names(self) -> set[str]:
        status, found = self.ask("GET", CONFIGMAPS)
        assert status == 200, found
        return {item["metadata"]["name"] for item in found["items"]}

    def close(self) -> None:
        self._connection.close()


def processes_of(server: ServerProcess) -> list[int]:
    """kapi and its Valkey."""
    assert server.process is not None
    kapi = server.process.pid
    children = Path(f"/proc/{kapi}/task/{kapi}/children").read_text().split()
    return [kapi, *map(int, children)]


def test_a_full_disk_loses_nothing_acknowledged(running: ServerProcess) -> None:
    """The largest size a file may have stands for the disk: writes beyond it fail and succeed again once there is room."""
    client = Client(running)
    acknowledged = set()
    for pid in processes_of(running):  # a server that is started again inherits kapi's limit
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (3_000_000, hard))
    refused: dict[str, Any] = {}
    for number in range(300):
        status, answer = client.create(f"c-{number}", "x" * 50_000)
        if status != 201:
            refused = answer
            break
        acknowledged.add(f"c-{number}")
    # the server ends in the middle of the write: nobody can know whether it is on the disk
    assert refused["code"] == 504 and refused["reason"] == "Timeout", refused
    assert "the outcome of the write is unknown" in refused["message"]
    assert acknowledged, "the limit came too early to show anything"

    def can_write() -> bool:
        for pid in processes_of(running):
            with contextlib.suppress(ProcessLookupError):  # the store's server that is just ending
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return client.create("after")[0] in (201, 409)

    until(can_write)
    assert acknowledged <= client.names()
    client.close()
    until(lambda: any("the store's server ended" in line for line in running.output))
    assert not any("Traceback" in line for line in running.output)


def test_a_copy_taken_while_writing_restores_what_was_acknowledged_before(
    running: ServerProcess, tmp_path: Path
) -> None:
    """Of the whole data directory, in which nothing was rewritten meanwhile."""
    client = Client(running)
    before = set()
    for number in range(200):
        assert client.create(f"before-{number}")[0] == 201
        before.add(f"before-{number}")
    stop = threading.Event()
    writer = Client(running)

    def write() -> None:
        number = 0
        while not stop.is_set():
            writer.create(f"during-{number}", "x" * 1000)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copytree(running.data, copy / "data", ignore=lambda _, names: [n for n in names if n.endswith(".sock")])
    finally:
        stop.set()
        thread.join()
        client.close()
        writer.close()
    restored = ForkedServer("--controllers=", directory=copy).start()
    try:
        other = Client(restored)
        names = other.names()
        assert before <= names
        during = sorted(int(name.removeprefix("during-")) for name in names if name.startswith("during-"))
        assert during == list(range(len(during))), "what was written during the copy is there without a gap"
        assert other.create("new")[0] == 201
        other.close()
    finally:
        restored.end()
    base = next((copy / "data" / "store" / "appendonlydir").glob("*.base.rdb"))
    base.unlink()
    with pytest.raises(RuntimeError, match="the store's server ended at once: .*"):  # never an empty cluster instead
        ForkedServer("--controllers=", directory=copy).start()
