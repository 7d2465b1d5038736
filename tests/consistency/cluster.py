"""Two API servers over one Valkey, each of which can be killed, frozen and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kapi.store.embedded import find_binary
from tests.store.servers import free_port

ROOT = Path(__file__).parents[2]
TOKEN = "consistency"


class Process:
    """A command that is started again on demand."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=ROOT, env=environment)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def revive(self) -> None:
        """Starts it again if it has ended.

        A server that finds no store at its start gives up, as systemd expects; and while a process is away, somebody's
        outgoing connection may have its port for a moment.
        """
        if self.process is not None and self.process.poll() is not None:
            self.start()

    def freeze(self, seconds: float) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.process.pid, signal.SIGCONT)


class ApiServer(Process):
    def __init__(self, directory: Path, store: str, tokens: Path, controllers: str) -> None:
        self.port = free_port()
        self.directory = directory
        twistd = Path(sys.executable).with_name("twistd")
        command = [
            str(twistd), "-n", "--pidfile=", "kapi", f"--data-dir={directory}", f"--secure-port={self.port}",
            "--bind-address=127.0.0.1", f"--token-auth-file={tokens}", f"--redis-servers={store}", f"--controllers={controllers}",
            "--redis-compaction-interval=0",  # a run of any length is explained by its whole history
        ]  # fmt: skip
        super().__init__(command, directory.with_suffix(".log"))

    @property
    def authority(self) -> str:
        return str(self.directory / "pki" / "ca.crt")


class Cluster:
    """``controllers`` are those that each server runs.  ``stop`` removes everything, logs included."""

    def __init__(self, controllers: str = "") -> None:
        self.directory = Path(tempfile.mkdtemp())
        store_port = free_port()
        self.store_url = f"redis://127.0.0.1:{store_port}"
        data = self.directory / "store"
        data.mkdir()
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f'{TOKEN},tester,1,"system:masters"\n')
        settings = ["--port", str(store_port), "--bind", "127.0.0.1", "--dir", str(data), "--save", ""]
        settings += ["--appendonly", "yes", "--appendfsync", "always"]
        self.store = Process([find_binary(), *settings], self.directory / "store.log")
        self.servers = [ApiServer(self.directory / f"api{n}", self.store_url, tokens, controllers) for n in range(2)]

    def start(self) -> None:
        self.store.start()
        time.sleep(0.3)
        for server in self.servers:
            server.start()

    def stop(self) -> None:
        for process in (*self.servers, self.store):
            process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def logs(self) -> str:
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in sorted(self.directory.glob("*.log")))
