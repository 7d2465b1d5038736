"""The in-memory API behind real TLS sockets; its deadlines run on a clock that the test moves."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from kapi.process.turn import TURN_SECONDS, Turn
from kapi.serving.listen import Port, bind
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed
from kapi.wire.tls.server import KeyPair, ServerContexts, TLSSettings
from tests.certificates import server_files
from tests.waiting import MAX_WAIT, eventually


class SocketCase(TestCase):
    """``api`` is served at ``port``; ``clock`` is what the server's deadlines run on."""

    turn_seconds = TURN_SECONDS

    def setUp(self) -> None:
        self.api: MemoryAPI = succeed(MemoryAPI.started())
        self.clock = self.api.clock
        self.files = server_files()
        self.prepare()
        # as the sockets: tests do not move what they are sent by
        self.api.runner.turn = Turn(reactor, seconds=self.turn_seconds)
        self.connections = self.api.site
        listener = bind("127.0.0.1", 0, False)
        self.port = listener.getsockname()[1]
        contexts = ServerContexts(TLSSettings(KeyPair(str(self.files.serving), str(self.files.serving_key))))
        self.listening = Port(reactor, listener, self.connections, contexts)
        self.addCleanup(self._stop)

    def prepare(self) -> None:
        """What a case stores before it is served: ``self.api.ask`` is answered at once here, in no turn of the reactor."""

    async def _stop(self) -> None:
        await self.listening.stop()
        self.connections.abort_all()
        await self.connections.all_closed()
        turn = self.api.runner.turn
        await deferLater(reactor, 0)  # type: ignore[arg-type]  # the turn in which that was ends
        await self.until(lambda: not turn.busy())

    def plain(self, receive_buffer: int = 0) -> socket.socket:
        """A connected socket, without TLS yet; ``receive_buffer`` bytes are taken in unread."""
        sock = socket.socket()
        self.addCleanup(sock.close)
        sock.settimeout(MAX_WAIT)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect(("127.0.0.1", self.port))
        return sock

    async def client(self, protocol: str = "http/1.1", **how: Any) -> ssl.SSLSocket:
        """A TLS connection."""
        context = ssl.create_default_context(cafile=str(self.files.ca))
        context.set_alpn_protocols([protocol])
        maximum = how.pop("maximum", None)
        if maximum is not None:
            context.maximum_version = maximum

        def connect() -> ssl.SSLSocket:
            return context.wrap_socket(self.plain(**how), server_hostname="127.0.0.1")

        sock: ssl.SSLSocket = await deferToThread(connect)
        self.addCleanup(sock.close)
        return sock

    async def asked(self, method: str, uri: str, body: object = None, type: str = "") -> MemoryRequest:
        """A request that is made in memory, when it is answered: one that is longer than a turn goes on in the next."""
        request = self.api.ask(method, uri, body, type=type)
        await self.until(lambda: request.finished)
        return request

    async def until(self, condition: Callable[[], Any]) -> None:
        """Lets the server go on until it has come so far."""
        await eventually(condition)

    def channels(self) -> list[Any]:
        return [connection.channel for connection in self.connections.open if connection.channel is not None]

    async def pass_time(self, seconds: float) -> None:
        """Moves the clock in steps of the sweep."""
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
        await deferLater(reactor, 0)  # type: ignore[arg-type]


def ask(sock: ssl.SSLSocket, text: str, body: bytes = b"") -> Deferred[tuple[int, bytes]]:
    """Status and body of a request of HTTP/1.1 whose answer has a length."""

    def run() -> tuple[int, bytes]:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        sock.sendall(f"{text} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode() + body)
        return answer(sock)

    return deferToThread(run)


def answer(sock: ssl.SSLSocket) -> tuple[int, bytes]:
    """Blocks for one whole answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(sock)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r")[0])
    parts, size = [rest], len(rest)
    while size < length:
        part = _more(sock)
        parts.append(part)
        size += len(part)
    return int(data.split(b" ", 2)[1]), b"".join(parts)


def _more(sock: ssl.SSLSocket) -> bytes:
    data = sock.recv(1 << 16)
    if not data:
        raise ConnectionError("the server closed the connection")
    return data


def rest(sock: ssl.SSLSocket) -> Deferred[bytes]:
    """All that comes until the server closes."""

    def run() -> bytes:
        parts = []
        while data := sock.recv(1 << 16):
            parts.append(data)
        return b"".join(parts)

    return deferToThread(run)


def send_and_read(sock: ssl.SSLSocket, data: bytes, times: int) -> Deferred[bytes]:
    """Sends ``data`` so often, or until nobody takes it any more, and reads meanwhile all that comes until the server closes.

    In one thread: OpenSSL does not let two of them use a connection at a time.
    """

    def run() -> bytes:
        received, waiting, left = b"", memoryview(b""), times
        sock.settimeout(0.0)
        end = time.monotonic() + MAX_WAIT
        while time.monotonic() < end:
            if not waiting and left:
                waiting, left = memoryview(data), left - 1
            try:
                if waiting:
                    waiting = waiting[sock.send(waiting) :]
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                pass
            except OSError:  # nobody takes it any more
                waiting, left = memoryview(b""), 0
            try:
                more = sock.recv(1 << 16)
                if not more:
                    return received
                received += more
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                select.select([sock], [sock] if waiting or left else [], [], 1.0)
        raise TimeoutError("the server does not close")

    return deferToThread(run)


def until_seen(sock: ssl.SSLSocket, mark: bytes, seen: bytes = b"") -> Deferred[bytes]:
    """What comes until ``mark`` is in it."""

    def run() -> bytes:
        data = seen
        while mark not in data:
            data += _more(sock)
        return data

    return deferToThread(run)


class Client2:
    """HTTP/2, frame by frame."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.sock = sock
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.state.initiate_connection()
        self.events: list[Any] = []

    def begin(self, method: str, path: str, end: bool = True) -> int:
        """Sends a header block and answers the stream's number."""
        stream: int = self.state.get_next_available_stream_id()
        headers = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "x")]
        self.state.send_headers(stream, headers, end_stream=end)
        self.flush()
        return stream

    def flush(self) -> None:
        self.sock.sendall(self.state.data_to_send())

    def until(self, kind: type, stream: int | None = None) -> Deferred[Any]:
        """The first event of a kind (on a stream)."""

        def run() -> Any:
            while True:
                for event in self.events:
                    if isinstance(event, kind) and (stream is None or getattr(event, "stream_id", None) == stream):
                        self.events.remove(event)
                        return event
                data = self.sock.recv(1 << 16)
                if not data:
                    raise ConnectionError("the server closed the connection")
                self.events += self.state.receive_data(data)

        return deferToThread(run)
