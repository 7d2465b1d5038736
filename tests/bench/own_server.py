"""A kapi that is started for a measurement, with its modules compiled, as an installed one is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.load import Connection, Target

_TOKEN = "bench-token"


class OwnServer:
    """A kapi started for the measurement."""

    def __init__(self, directory: Path, flags: list[str], checkout: str = ".") -> None:
        self.checkout = checkout
        self.directory = directory
        self.tokens = directory / "tokens.csv"
        self.tokens.write_text(f"{_TOKEN},bench,bench,system:masters\n")
        self.flags = flags
        self.environment = as_installed(directory / "bytecode", checkout)
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> tuple[Target, float]:
        """The target and the seconds until /readyz answered."""
        begin = time.perf_counter()
        command = [
            sys.executable, "-m", "kapi", f"--data-dir={self.directory / 'data'}", "--bind-address=127.0.0.1",
            "--secure-port=0", f"--token-auth-file={self.tokens}", *self.flags,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=self.checkout, env=self.environment
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "serving at" not in line:
            raise SystemExit("kapi did not start")
        target = Target(line.split()[-1], _TOKEN, str(self.directory / "data" / "pki" / "ca.crt"))
        connection = Connection(target)
        while connection.roundtrip(target.request("GET", "/readyz"))[0] != 200:
            time.sleep(0.005)
        took = time.perf_counter() - begin
        connection.close()
        target.pids = (self.process.pid, *children(self.process.pid))
        return target, took

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)

    def restart(self) -> tuple[Target, float]:
        self.stop()
        return self.start()


_IMPORT_ALL = """
import importlib, kapi, pkgutil
for module in pkgutil.walk_packages(kapi.__path__, "kapi.", onerror=lambda name: None):
    try:
        module.name.endswith("__main__") or importlib.import_module(module.name)
    except ImportError:  # of an extra that is not installed
        pass
"""


def as_installed(bytecode: Path, checkout: str) -> dict[str, str]:
    """The environment of a server whose modules are compiled before it starts, as those of an installed package are.

    A checkout's are not where PYTHONDONTWRITEBYTECODE is set: each start would compile all of them, which takes longer than the
    start itself; and those that are loaded with their first use, while others wait.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", _IMPORT_ALL], cwd=checkout, env=environment, check=True)
    return environment


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]
