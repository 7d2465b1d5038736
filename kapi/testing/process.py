"""A real kapi for tests: a separate process on a free port, with a temporary directory.

::

    @pytest.fixture(scope="session")
    def cluster():
        with KapiProcess() as kapi:
            yield kapi

``cluster.kubeconfig`` is for any client; ``cluster.environment()`` is for child processes such as kubectl.
"""

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
from types import TracebackType
from typing import Self

URL = re.compile(r"serving at (https://\S+)")
READY = "export KUBECONFIG="


class KapiProcess:
    """``flags`` are added to those for the data directory, the loopback address and a free port.

    Without a ``directory`` a temporary one is made and removed at the end; a given one is kept, and its data are served.
    ``switches`` come before all flags: a server for tests has the testbed.
    """

    switches: Sequence[str] = ("--testbed",)

    def __init__(self, *flags: str, directory: Path | None = None) -> None:
        self._own = directory is None
        self.root = Path(tempfile.mkdtemp(prefix="kapi-")) if directory is None else directory
        self.data = self.root / "data"
        self.flags = list(flags)
        self.url = ""
        self._lines: list[str] = []
        self.process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of a member of ``system:masters``."""
        return self.data / "admin.kubeconfig"

    @property
    def authority(self) -> Path:
        """The file with the CA of the server's certificate."""
        return self.data / "pki" / "ca.crt"

    @property
    def output(self) -> list[str]:
        """The lines that the server has printed."""
        return self._lines

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def command(self) -> list[str]:
        return [
            sys.executable, "-m", "kapi", *self.switches, f"--data-dir={self.data}", "--bind-address=127.0.0.1",
            "--secure-port=0", *self.flags,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """For child processes: its kubeconfig, and an empty home directory."""
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(home)}

    def start(self, seconds: float = 120.0) -> Self:
        """Starts the server and waits until it is ready.  Raises RuntimeError, with its output, when it ends or is late."""
        self.process = self._spawn()
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self.process, ready), daemon=True)
        self._reader.start()
        end = time.monotonic() + seconds
        while not ready.wait(0.05):
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()  # which also reads its output to the end
                raise RuntimeError(f"kapi did not start:\n{''.join(self.output)}")
        return self

    def _spawn(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._lines.append(line)
                match = URL.search(line)
                if match:
                    self.url = match[1]
                if line.startswith(READY):
                    ready.set()

    def end(self, number: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Ends the process with a signal and keeps the directory.  Returns the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if self._reader is not None:
                self._reader.join(5)  # so that ``output`` has the last lines

    def stop(self) -> int:
        """Ends the process and removes a temporary directory.  Returns the exit code."""
        code = self.end() if self.process is not None else 0
        if self._own:
            shutil.rmtree(self.root, ignore_errors=True)
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
