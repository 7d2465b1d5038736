"""A client that sends what an attacker would, over TLS to a real server."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kapi.testing.process import KapiProcess
from tests.waiting import MAX_WAIT

_LOOKS, _BETWEEN = 15, 0.02  # in which nothing runs, at rest; seconds between two
_BUSY = frozenset("RD")  # states of a thread that runs, or waits for a processor or a disk
JSON = "application/json"
MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    f"application/{kind}"
    for kind in ("merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml")
)


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        text: str = self.tree["message"]
        return text


class Attacker:
    """``token`` is one of the server's; without one the client is anonymous."""

    def __init__(self, server: KapiProcess, token: str = "") -> None:
        self.server = server
        self.token = token
        self.host, _, port = server.url.removeprefix("https://").rpartition(":")
        self.port = int(port)
        self.context = ssl.create_default_context(cafile=str(server.authority))

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        seconds: float = 120,
    ) -> Answer:
        """``body``: bytes as they are, anything else as JSON."""
        connection = http.client.HTTPSConnection(self.host, self.port, context=self.context, timeout=seconds)
        given = {"Content-Type": content_type, **(headers or {})}
        if self.token:
            given.setdefault("Authorization", f"Bearer {self.token}")
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with closing(connection):
            connection.request(method, path, data, given)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read())

    def connect(self, seconds: float = 120) -> ssl.SSLSocket:
        plain = socket.create_connection((self.host, self.port), timeout=seconds)
        return self.context.wrap_socket(plain, server_hostname=self.host)

    def raw(self, data: bytes, seconds: float = 120) -> bytes:
        """Everything that comes back until the server closes or is silent for ``seconds``."""
        with self.connect(seconds) as connection:
            connection.sendall(data)
            received = b""
            try:
                while more := connection.recv(65536):
                    received += more
            except (TimeoutError, ConnectionResetError, ssl.SSLError):
                pass
            return received

    def head(self, path: str, *headers: str, method: str = "GET") -> bytes:
        """A request with this client's credentials, to be sent raw."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", *headers]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def create(self, path: str, body: Any, **more: Any) -> Any:
        """The created object."""
        answer = self.ask("POST", path, body, **more)
        assert answer.status == 201, answer.body
        return answer.tree


def cpu(pid: int) -> float:
    """Seconds of processor time of a process: what it has to do, however much others have."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def most_until_rest(pid: int) -> int:
    """The most resident bytes of a process until nothing is left to do: it, its children and this process only wait.

    What waits for a processor that others have is not at rest.
    """
    most, quiet, end = 0, 0, time.monotonic() + MAX_WAIT
    while quiet < _LOOKS:
        assert time.monotonic() < end, "the server has not come to rest"
        time.sleep(_BETWEEN)
        most = max(most, memory(pid))
        quiet = quiet + 1 if _BUSY.isdisjoint(_states(pid)) else 0
    return most


def _states(pid: int) -> Iterator[str]:
    """Of the threads of a process and of its children, and of the other threads of this process."""
    tasks = [*Path(f"/proc/{pid}/task").iterdir(), *Path("/proc/self/task").iterdir()]
    for task in tasks:
        with suppress(OSError):  # it has ended
            if task.name != str(threading.get_native_id()):
                yield (task / "stat").read_text().rpartition(")")[2].split()[0]
            if task.parts[2] != "self":
                tasks += (Path(f"/proc/{child}/task/{child}") for child in (task / "children").read_text().split())
