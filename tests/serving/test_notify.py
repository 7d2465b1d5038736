"""systemd is told over a datagram socket; without one nothing happens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from kapi.serving.notify import StartExtension, announcement, notify


def test_a_state_is_sent(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        assert notify("READY=1", path)
        assert listener.recv(100) == b"READY=1"


def test_nobody_listens() -> None:
    assert not notify("READY=1", "")
    assert not notify("READY=1", "/nonexistent/socket")
    assert not notify("READY=1", "relative")


def test_a_long_start_is_extended_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd would end the service at ``TimeoutStartSec``, while its store loads large data."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    clock = Clock()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        extension = StartExtension(clock)
        extension.begin()
        clock.pump([5.0])
        with pytest.raises(BlockingIOError):  # a usual start needs none
            listener.recv(100)
        for _ in range(3):
            clock.pump([10.0])
            assert listener.recv(100) == b"EXTEND_TIMEOUT_USEC=30000000"
        extension.end()
        clock.pump([10.0] * 3)
        with pytest.raises(BlockingIOError):
            listener.recv(100)


@pytest.mark.parametrize(("address", "everywhere"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False)])
def test_a_terminal_is_told_what_may_be_done_next(address: str, everywhere: bool) -> None:
    lines = ["kapi is serving at https://h:1", "export KUBECONFIG=k"]
    assert announcement("https://h:1", "k", address, terminal=False).splitlines() == lines
    told = announcement("https://h:1", "k", address, terminal=True).splitlines()
    assert (told[:2], len(told), "--bind-address=127.0.0.1" in told[-1]) == (lines, 4 if everywhere else 3, everywhere)
