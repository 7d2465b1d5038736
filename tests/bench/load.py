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
        ]
        if "Accept" not in headers:
            lines.append("Accept: application/json")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body or method in ("POST", "PUT", "PATCH"):
            lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def cpu(self) -> float:
        """Seconds of CPU that the server's processes have used."""
        return sum(cpu_seconds(pid) for pid in self.pids)

    def precise_cpu(self) -> float:
        """The same of their main threads alone, to the microsecond."""
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in self.pids) / 1e9

    def cpu_of_each(self) -> dict[str, float]:
        """The same by process: its name, with a number behind the first of that name."""
        found: dict[str, float] = {}
        for pid in self.pids:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            same = sum(other.partition(" ")[0] == name for other in found)
            found[f"{name} {same + 1}" if same else name] = cpu_seconds(pid)
        return found

    def memory(self) -> float:
        """Resident megabytes of the server's processes."""
        return sum(resident(pid) for pid in self.pids)


def cpu_seconds(pid: int) -> float:
    """To the nanosecond: ``/proc/PID/stat`` counts hundredths, of which twenty pages of a list take six."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) makes it on Linux


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
        self.answer = Answer()  # the one that is awaited
        self.sent = 0.0

    def send(self, data: bytes) -> None:
        self.sent = time.perf_counter()
        self.socket.sendall(data)

    def roundtrip(self, data: bytes) -> tuple[int, bytes]:
        """Status and body; blocking."""
        self.send(data)
        return self.receive()

    def receive(self) -> tuple[int, bytes]:
        """Status and body of the next answer; blocking."""
        answer = Answer()
        while not answer.feed(self._more()):
            pass
        return answer.status, b"".join(answer.parts)

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


_BODILESS = (204, 304)


class Answer:
    """One answer of HTTP/1.1, however it is framed: with a length, or in chunks, as Go sends what it does not know ahead."""

    __slots__ = ("_buffer", "_left", "_state", "parts", "status")

    def __init__(self) -> None:
        self.status = 0
        self.parts: list[bytes] = []  # of the body
        self._buffer = b""
        self._left = 0  # bytes of the body or of the chunk that are to come
        self._state = "head"

    def feed(self, data: bytes) -> bool:
        """Whether that was the end of it.  What follows the answer is an error: nothing more was asked for."""
        data = self._buffer + data
        while True:
            if self._state in ("body", "chunk"):
                self.parts.append(data[: self._left])
                rest = data[self._left :]
                self._left -= len(self.parts[-1])
                self._buffer = b""
                if self._left:
                    return False
                if self._state == "body":
                    assert not rest, rest
                    return True
                data, self._state = rest, "end of chunk"
                continue
            mark = b"\r\n\r\n" if self._state == "head" else b"\r\n"
            line, found, rest = data.partition(mark)
            if not found:
                self._buffer = data
                return False
            data = rest
            if self._state == "head":
                self._begin(line)
                if not self._state:
                    return True
            elif self._state == "size":
                self._left = int(line.partition(b";")[0], 16)
                self._state = "chunk" if self._left else "trailers"
            elif self._state == "end of chunk":
                assert not line, line
                self._state = "size"
            elif not line:  # the end of the trailers
                assert not rest, rest
                return True

    def _begin(self, head: bytes) -> None:
        self.status = int(head[9:12])
        lower = head.lower()
        at = lower.find(b"\r\ncontent-length:")
        if at >= 0:
            self._left = int(lower[at + 17 :].partition(b"\r")[0])
            self._state = "body" if self._left else ""
        elif b"\r\ntransfer-encoding: chunked" in lower:
            self._state = "size"
        elif self.status in _BODILESS:
            self._state = ""
        else:
            raise ValueError(f"an answer without an end: {head!r}")


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
                answer = connection.answer
                if not answer.feed(data):
                    continue
                now = time.perf_counter()
                latencies.append(now - connection.sent)
                failures += not 200 <= answer.status < 300
                connection.answer = Answer()
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
