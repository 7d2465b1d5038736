"""Servers for tests: real ones with any settings.

``KAPI_TEST_REDIS_SERVER`` names another binary (Debian's redis-server).
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from kapi.store.embedded import find_binary
from tests.waiting import until


def free_port() -> int:
    """Below those that the system gives to whoever asks for any, so that it stays free until its server is there."""
    while True:
        port = random.SystemRandom().randrange(12_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    """A server on a TCP port of 127.0.0.1; settings are those of its configuration file."""

    def __init__(self, *arguments: str, sentinel: str = "", **settings: str) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.port = int(settings.pop("port", 0)) or free_port()
        binary = os.environ.get("KAPI_TEST_REDIS_SERVER") or find_binary()
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.directory}", 'save ""', sentinel]
        lines += [f"{name.replace('_', '-')} {value}" for name, value in settings.items()]
        if "cluster_enabled" in settings:  # by default the bus takes a port 10,000 higher, which there need not be
            lines.append(f"cluster-port {free_port()}")
        config = self.directory / "server.conf"
        config.write_text("\n".join(lines) + "\n")
        command = [binary, str(config), *(["--sentinel"] if sentinel else []), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def wait(self) -> None:
        until(self._listens)

    def _listens(self) -> bool:
        assert self.process.poll() is None, "the server has ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
