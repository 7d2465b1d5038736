"""A real kapi in a process of its own with some users, and kubectl to drive it."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self, cast

from kapi.serving.pki import Files, write_private
from kapi.testing.process import KapiProcess
from tests import fork_server

TOKENS = 'admintoken,admin,admin,system:masters\nalicetoken,alice,alice,"dev,qa"\nbobtoken,bob,bob,"ops"\ncarolintoken,carol,carol,"guests"\n'  # noqa: E501


class ServerProcess(KapiProcess):
    """One that knows the tokens of a few users."""

    switches = ()  # as in production
    started: ClassVar[set[ServerProcess]] = set()

    def __init__(self, *flags: str, directory: Path | None = None) -> None:
        super().__init__(directory=directory)
        self.root.mkdir(parents=True, exist_ok=True)
        self.tokens = self.root / "tokens.csv"
        self.tokens.write_text(TOKENS)
        self.flags = [f"--token-auth-file={self.tokens}", *flags]

    def environment(self) -> dict[str, str]:
        """As of any; kubectl, a program in Go, ends before its heap is worth a collection."""
        return {**super().environment(), "GOGC": "off"}

    def start(self, seconds: float = 200.0) -> Self:
        self.started.add(self)
        return super().start(seconds)

    def end(self, number: int = signal.SIGTERM, seconds: float = 100.0) -> int:
        code = super().end(number, seconds)
        self.started.discard(self)
        return code


class ForkedServer(ServerProcess):
    """One for tests that ask a server, and do not look at how it starts: by the fork server.

    All of a pytest process sign tokens with the key of the first: finding two large primes takes as long as the rest of a
    start.
    """

    program: ClassVar[str] = "kapi.__main__"
    _signer: ClassVar[dict[str, bytes]] = {}

    def _spawn(self) -> subprocess.Popen[str]:
        if self._signer and not self.data.exists():
            for directory in (self.data, self.data / "pki"):
                directory.mkdir(mode=0o700)
            for name, content in self._signer.items():
                write_private(self.data / "pki" / name, content)
        return cast("subprocess.Popen[str]", fork_server.spawn(self.command()[3:], self.program))

    def start(self, seconds: float = 200.0) -> Self:
        super().start(seconds)
        if not self._signer:
            files = Files(self.data / "pki")
            if files.service_account_key.exists():
                for file in (files.service_account_key, files.service_account_public):
                    self._signer[file.name] = file.read_bytes()
        return self


def run_to_end(*flags: str, seconds: float = 120.0) -> tuple[int, str]:
    """Of a kapi that ends by itself, by the fork server: its exit code and all that it has printed."""
    process = fork_server.spawn([*flags])
    try:
        code = process.wait(seconds)
        return code, process.stdout.read()
    finally:
        process.kill()
        process.stdout.close()


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
        self, *arguments: str, stdin: str | None = None, ok: Sequence[int] = (0,), seconds: float = 120, **env: str
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


def connect(server: KapiProcess, *, admin: bool = False) -> http.client.HTTPSConnection:
    """A connection for several requests.  ``admin``: with the administrator's certificate."""
    context = ssl.create_default_context(cafile=str(server.authority))
    if admin:
        pki = server.authority.parent
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    return http.client.HTTPSConnection(server.url.removeprefix("https://"), context=context, timeout=120)


def api_request(server: ServerProcess, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """As the user ``admin``, over a connection of its own; a poll by kubectl would take a tenth of a second of CPU each time."""
    connection = connect(server)
    try:
        headers = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
        connection.request(method, f"/{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
