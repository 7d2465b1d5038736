"""systemd is told over a datagram socket; without one nothing happens."""

from __future__ import annotations

import socket
from pathlib import Path

from kapi.server.notify import notify


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
