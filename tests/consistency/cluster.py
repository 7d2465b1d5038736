"""Two API servers over one Valkey for tests that need no faults."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests import fork_server
from tests.consistency.http_client import TOKEN
from tests.consistency.processes import free_port
from tests.store.servers import Server

__all__ = ["TOKEN", "ApiServer", "Cluster"]


class ApiServer:
    """``port`` and the file of the ``authority`` that signed its certificate, which is there once it serves."""

    def __init__(self, directory: Path, store: str, tokens: Path, controllers: str) -> None:
        self.port = free_port()
        self.authority = str(directory / "pki" / "ca.crt")
        arguments = [
            f"--data-dir={directory}", f"--secure-port={self.port}",
            "--bind-address=127.0.0.1", f"--token-auth-file={tokens}", f"--redis-servers={store}", f"--controllers={controllers}",
        ]  # fmt: skip
        with directory.with_suffix(".log").open("ab") as log:
            self.process = fork_server.spawn(arguments, output=log.fileno())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Cluster:
    """``controllers`` are those that each server runs.  ``stop`` removes everything, logs included."""

    def __init__(self, controllers: str = "") -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.servers: list[ApiServer] = []
        self._controllers = controllers
        self._store = Server(appendonly="yes", appendfsync="always")

    def start(self) -> None:
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f'{TOKEN},tester,1,"system:masters"\n')
        for number in range(2):
            where = self.directory / f"api{number}"
            self.servers.append(ApiServer(where, self._store.url, tokens, self._controllers))

    def stop(self) -> None:
        for server in self.servers:
            server.stop()
        self._store.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
