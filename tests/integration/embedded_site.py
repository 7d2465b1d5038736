"""A Twisted application with kapi inside: ``python -m tests.integration.embedded_site MOUNT ADDITIONS flags...``.

Serves plain HTTP on a free port, which it prints when kapi is ready; ``MOUNT`` is the path segment kapi is mounted at, "/" for
all of the site; ``ADDITIONS`` the name of those of ``added_server``, or empty.  SIGTERM ends kapi and then the process.
"""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self, cast

from tests import fork_server
from tests.integration.server_process import TOKENS

_PROGRAM = "tests.integration.embedded_site"


class EmbeddedSite:
    """The application in a process of its own: a fork of one that has imported kapi, or one that is started ``anew``."""

    process: subprocess.Popen[str]

    def __init__(self, *flags: str, mount: str = "/", anew: bool = False, additions: str = "") -> None:
        self._anew = anew
        self._directory = tempfile.TemporaryDirectory()
        self.tokens = Path(self._directory.name) / "tokens.csv"
        self.tokens.write_text(TOKENS)
        self._arguments = [
            mount,
            additions,
            f"--data-dir={self._directory.name}/data",
            f"--token-auth-file={self.tokens}",
            *flags,
        ]
        self.log = Path(self._directory.name) / "log"

    def start(self) -> Self:
        with self.log.open("wb") as log:
            if self._anew:
                command = [sys.executable, "-m", _PROGRAM, *self._arguments]
                self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
            else:
                forked = fork_server.spawn(self._arguments, _PROGRAM, errors=log.fileno())
                self.process = cast("subprocess.Popen[str]", forked)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()  # ends with the process, whatever happens to it
        if not line.startswith("port "):
            self.stop()
            raise AssertionError(f"not started: {line}")
        self.port = int(line.split()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def stop(self) -> int:
        """The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._directory.cleanup()
        return self.process.returncode

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def ask(
        self, method: str, path: str, body: object = None, *, token: str = "admintoken", **headers: str
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """Status, the body as a tree (or as text) and headers, over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            if token:
                given["Authorization"] = f"Bearer {token}"
            given.setdefault("Content-Type", "application/json")
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, given)
            answer = connection.getresponse()
            text = answer.read().decode()
            try:
                return answer.status, json.loads(text), answer.headers
            except ValueError:
                return answer.status, text, answer.headers
        finally:
            connection.close()


def main() -> None:
    from twisted.application.service import MultiService
    from twisted.internet import reactor as installed
    from twisted.web.resource import Resource
    from twisted.web.server import Site

    import kapi
    from tests.integration.added_server import additions

    reactor: Any = installed
    mount, name, *flags = sys.argv[1:]
    api = kapi.resource(*flags, additions=additions(name) if name else None)
    application = MultiService()
    api.service.setServiceParent(application)
    root: Any = api
    if mount != "/":
        root = Resource()
        root.putChild(mount.encode(), api)
    port = reactor.listenTCP(0, Site(root), interface="127.0.0.1")
    reactor.addSystemEventTrigger("before", "shutdown", application.stopService)
    application.startService()

    def ready(_: object) -> None:
        print(f"port {port.getHost().port}", flush=True)

    def failed(failure: Any) -> None:
        print(f"failed: {failure.value}", flush=True)
        reactor.stop()

    api.service.when_ready().addCallbacks(ready, failed)
    reactor.run()


if __name__ == "__main__":
    main()
