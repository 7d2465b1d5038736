"""A real kapi in a process of its own, on a free port, in a directory that goes away with it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

_URL = re.compile(r"serving at (https://\S+)")
TOKENS = 'admintoken,admin,admin,system:masters\nalicetoken,alice,alice,"dev,qa"\nbobtoken,bob,bob,"ops"\ncarolintoken,carol,carol,"guests"\n'  # noqa: E501


class ServerProcess:
    """``flags`` come on top of the data directory and a free port."""

    def __init__(self, *flags: str, directory: Path | None = None) -> None:
        self._own = directory is None
        self.root = Path(tempfile.mkdtemp(prefix="kapi-it-")) if directory is None else directory
        self.data = self.root / "data"
        self.tokens = self.root / "tokens.csv"
        self.tokens.write_text(TOKENS)
        self.flags = list(flags)
        self.url = ""
        self.output: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.data / "admin.kubeconfig"

    @property
    def authority(self) -> Path:
        return self.data / "pki" / "ca.crt"

    def start(self, seconds: float = 60.0) -> ServerProcess:
        """Waits until it serves.  Raises RuntimeError with its output when it ends or takes too long."""
        command = [
            sys.executable, "-m", "kapi", "--data-dir", str(self.data), "--bind-address=127.0.0.1", "--secure-port=0",
            f"--token-auth-file={self.tokens}", *self.flags,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=Path(__file__).parents[2]
        )
        ready = threading.Event()
        threading.Thread(target=self._read, args=(self.process, ready), daemon=True).start()
        end = time.monotonic() + seconds
        while not ready.wait(0.05):
            if self.process.poll() is not None or time.monotonic() > end:
                output = "".join(self.output)
                self.stop()
                raise RuntimeError(f"kapi did not start:\n{output}")
        return self

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.output.append(line)
            match = _URL.search(line)
            if match:
                self.url = match[1]
            if line.startswith("export KUBECONFIG="):
                ready.set()

    def end(self, number: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        """Ends the process and keeps the directory; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def stop(self) -> int:
        """Ends it and removes what was its own."""
        code = self.end() if self.process is not None else 0
        if self._own:
            shutil.rmtree(self.root, ignore_errors=True)
        return code

    def environment(self) -> dict[str, str]:
        """For child processes: its kubeconfig, and a home without anybody's settings."""
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(home)}


def kubectl_path() -> str | None:
    """The kubectl of this environment, or one on the path."""
    beside = Path(sys.executable).parent / "kubectl"
    return str(beside) if beside.exists() else shutil.which("kubectl")


class Kubectl:
    """Runs kubectl against a server."""

    def __init__(self, server: ServerProcess, binary: str, namespace: str = "") -> None:
        self.server = server
        self.binary = binary
        self.namespace = namespace

    def run(
        self, *arguments: str, stdin: str | None = None, ok: Sequence[int] = (0,), seconds: float = 60, **env: str
    ) -> str:
        """Its standard output.  Fails the test when it ends with another code than ``ok``."""
        scope = ["-n", self.namespace] if self.namespace else []
        done = subprocess.run(
            [self.binary, *scope, *arguments],
            input=stdin, capture_output=True, text=True, timeout=seconds, env={**self.server.environment(), **env},
        )  # fmt: skip
        assert done.returncode in ok, f"kubectl {arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        self.stderr = done.stderr
        return done.stdout

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        scope = ["-n", self.namespace] if self.namespace else []
        return subprocess.Popen(
            [self.binary, *scope, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.server.environment(),
        )  # fmt: skip
