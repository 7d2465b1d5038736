"""An audit log that nobody takes: those wait whose events are to be written, nobody else does."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
import termios
import threading
from pathlib import Path

from tests.integration.server_process import ServerProcess, api_request, connect
from tests.waiting import until

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
  resources: [{group: "", resources: [configmaps]}]
- level: None
"""


class Unread(ServerProcess):
    """Its standard output is a pipe, which is read when the test says so."""

    def _spawn(self) -> subprocess.Popen[str]:
        self.reading, writing = os.pipe()
        try:
            return subprocess.Popen(self.command(), stdout=writing, stderr=subprocess.PIPE, text=True)
        finally:
            os.close(writing)

    def start(self, seconds: float = 200.0) -> Unread:
        self.started.add(self)
        self.process = self._spawn()
        threading.Thread(target=self.process.stderr.read, daemon=True).start()  # type: ignore[union-attr]
        told = b""
        while b"export KUBECONFIG=" not in told:
            told += os.read(self.reading, 10_000)
        self.url = next(word for word in told.decode().split() if word.startswith("https://"))
        return self

    def unread(self) -> int:
        """Bytes of its output."""
        return int.from_bytes(fcntl.ioctl(self.reading, termios.FIONREAD, bytes(4)), sys.byteorder)


class Reader(threading.Thread):
    """Asks until it is enough."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(daemon=True)
        self.connection = connect(server)
        self.answered = 0
        self.enough = False

    def run(self) -> None:
        for number in itertools.count():
            if self.enough:
                return
            path = "/api/v1/namespaces/default/configmaps" + ("/x" if number % 2 else "") + "?x=" + "x" * 2000
            self.connection.request("GET", path, headers={"Authorization": "Bearer admintoken"})
            assert self.connection.getresponse().read()
            self.answered += 1


def test_standard_output_that_nobody_reads(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    server = Unread("--audit-log-path=-", f"--audit-policy-file={policy}", directory=tmp_path / "server").start()
    try:
        readers = [Reader(server) for _ in range(4)]
        for reader in readers:
            reader.start()

        def answered_while_others_are() -> int:
            before = sum(reader.answered for reader in readers)
            for _ in range(20):
                assert api_request(server, "GET", "readyz")[0] == 200
            return sum(reader.answered for reader in readers) - before

        until(lambda: server.unread() > 32_000 and not answered_while_others_are())  # a pipe has 64 kB
        stuck = sum(reader.answered for reader in readers)
        for number in range(20):
            assert api_request(server, "POST", "api/v1/namespaces", {"metadata": {"name": f"n{number}"}})[0] == 201
            assert api_request(server, "GET", "readyz")[0] == 200
        assert sum(reader.answered for reader in readers) == stuck
        lines = [b""]

        def read() -> None:
            while data := os.read(server.reading, 100_000):
                lines[0] += data

        threading.Thread(target=read, daemon=True).start()
        until(lambda: sum(reader.answered for reader in readers) > stuck + 20)
        for reader in readers:
            reader.enough = True
        for reader in readers:
            reader.join()
        answered = sum(reader.answered for reader in readers)
        assert server.end() == 0
        assert lines[0].count(b'"ResponseComplete"') + 200 > answered > 20
    finally:
        server.stop()
