"""The load generator: many keep-alive TLS connections driven by one epoll loop, cheap enough not to be the bottleneck."""

from __future__ import annotations

import select
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar


@dataclass(slots=True)
class Target:
    """A server and the credentials for it; ``pids`` are the processes whose CPU time counts."""

    url: str
    token: str
    authority: str = ""
    pids: tuple[int, ...] = ()
    host: str = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 443

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority or None)
        if not self.authority:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def request(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json", **headers: str
    ) -> bytes:
        """The bytes of a request."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}",
            f"Authorization: Bearer {self.token}",
            "Accept: application/json",
        ]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body or method in ("POST", "PUT", "PATCH"):
            lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def cpu(self) -> float:
        """Seconds of CPU that the server's processes have used."""
        return sum(cpu_seconds(pid) for pid in self.pids)

    def memory(self) -> float:
        """Resident megabytes of the server's processes."""
        return sum(resident(pid) for pid in self.pids)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0


def resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Connection:
    """One keep-alive connection."""

    def __init__(self, target: Target, context: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection((target.host, target.port), 30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = (context or target.context()).wrap_socket(plain, server_hostname=target.host)
        self.buffer = b""
        self.sent = 0.0

    def send(self, data: bytes) -> None:
        self.sent = time.perf_counter()
        self.socket.sendall(data)

    def roundtrip(self, data: bytes) -> tuple[int, bytes]:
        """Status and body; blocking."""
        self.send(data)
        buffer = b""
        while b"\r\n\r\n" not in buffer:
            buffer += self._more()
        head, _, body = buffer.partition(b"\r\n\r\n")
        length = _length(head)
        if length is None:
            while not body.endswith(b"0\r\n\r\n"):
                body += self._more()
            return int(head[9:12]), body
        parts, size = [body], len(body)
        while size < length:
            part = self._more()
            parts.append(part)
            size += len(part)
        return int(head[9:12]), b"".join(parts)

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def close(self) -> None:
        self.socket.close()


C = TypeVar("C", bound="Connection")


class Polled(Generic[C]):
    """Connections that are read when something has come."""

    def __init__(self, connections: Iterable[C]) -> None:
        self._poll = select.epoll()
        self._connections = {connection.socket.fileno(): connection for connection in connections}
        for number, connection in self._connections.items():
            connection.socket.setblocking(False)
            self._poll.register(number, select.EPOLLIN)

    def ready(self, seconds: float) -> Iterator[C]:
        """Those on which something has come by then."""
        for number, _ in self._poll.poll(seconds):
            yield self._connections[number]

    def forget(self, connection: C) -> None:
        """Its server has ended it."""
        self._poll.unregister(connection.socket.fileno())


def arrived(connection: Connection) -> Iterator[bytes]:
    """What has come, piece by piece; at the end of the connection an empty one."""
    while True:
        try:
            data = connection.socket.recv(1 << 16)
        except (ssl.SSLWantReadError, BlockingIOError):
            return
        yield data
        if not data:
            return


def _length(head: bytes) -> int | None:
    lower = head.lower()
    at = lower.find(b"content-length:")
    return None if at < 0 else int(lower[at + 15 : lower.find(b"\r", at) if lower.find(b"\r", at) > 0 else None])


@dataclass(slots=True)
class Outcome:
    """Of one run: requests a second, CPU-microseconds of the server for each, latencies in seconds."""

    rate: float
    cpu: float
    latencies: list[float]
    failures: int = 0


def drive(target: Target, make: Callable[[int], bytes], concurrency: int, seconds: float) -> Outcome:
    """Keeps ``concurrency`` requests in flight for a while; ``make`` gives the bytes of request number n."""
    context = target.context()
    connections = [Connection(target, context) for _ in range(concurrency)]
    polled = Polled(connections)
    latencies: list[float] = []
    failures = issued = 0
    before = target.cpu()
    begin = time.perf_counter()
    end = begin + seconds
    for connection in connections:
        connection.send(make(issued))
        issued += 1
    running = concurrency
    now = begin
    while running:
        for connection in polled.ready(30):
            for data in arrived(connection):
                if not data:
                    raise ConnectionError("the server closed the connection")
                buffer = connection.buffer + data
                split = buffer.find(b"\r\n\r\n")
                length = _length(buffer[:split]) if split >= 0 else None
                if split < 0 or length is None or len(buffer) < split + 4 + length:
                    connection.buffer = buffer
                    if connection.socket.pending():
                        continue
                    break
                now = time.perf_counter()
                latencies.append(now - connection.sent)
                failures += buffer[9:10] != b"2"
                connection.buffer = b""
                if now < end:
                    connection.send(make(issued))
                    issued += 1
                else:
                    running -= 1
                break
    took = now - begin
    used = target.cpu() - before
    for connection in connections:
        connection.close()
    return Outcome(len(latencies) / took, used * 1e6 / max(1, len(latencies)), latencies, failures)


def chunks(data: bytes) -> Iterator[bytes]:
    """Lines of a chunked stream, framing left out; good enough to count events."""
    for line in data.split(b"\n"):
        if line.startswith(b"{"):
            yield line
