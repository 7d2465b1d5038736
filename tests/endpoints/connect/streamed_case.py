"""A server on a socket before a pod that reads a body as it likes."""

from __future__ import annotations

import hashlib
import ssl
from typing import Any

import h2.events
import h2.exceptions
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.threads import deferToThread

from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.endpoints.connect.proxy import is_proxied
from kapi.servers.core.handlers import built_in_handlers
from kapi.wire import dial as dialer
from tests.endpoints.connect.local_pod import PODS, store_pod
from tests.serving.sockets import Client2, SocketCase

MEGA = 1 << 20
LARGE = 50 * MEGA
PIECE = bytes(range(256)) * 256  # 64 KiB
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


class Pod(Protocol):
    """Reads a request, and answers when its body is whole, or with ``early`` as soon as its head is here."""

    factory: Any

    def connectionMade(self) -> None:
        self.factory.connections.append(self)
        self.head = b""
        self.body = hashlib.sha256()
        self.size = 0
        self.raw = b""  # of chunks
        self.chunked = False
        self.length: int | None = None
        self.answered = self.lost = False
        if not self.factory.reads:
            self.transport.pauseProducing()  # type: ignore[union-attr]

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = True

    def dataReceived(self, data: bytes) -> None:
        if b"\r\n\r\n" not in self.head:
            self.head += data
            if b"\r\n\r\n" not in self.head:
                return
            head, _, data = self.head.partition(b"\r\n\r\n")
            self.head = head + b"\r\n\r\n"
            lower = head.lower()
            self.chunked = b"transfer-encoding: chunked" in lower
            if not self.chunked:
                self.length = int(lower.partition(b"content-length: ")[2].split(b"\r")[0])
            if self.factory.early:
                self.answer(self.factory.early)
        if self.chunked:
            self.raw += data
            while (line := self.raw.find(b"\r\n")) >= 0:
                size = int(self.raw[:line], 16)
                if len(self.raw) < line + size + 4:
                    break
                self.take(self.raw[line + 2 : line + 2 + size])
                self.raw = self.raw[line + size + 4 :]
                if not size:
                    self.answer(OK)
        else:
            self.take(data)
            if self.size == self.length:
                self.answer(OK)

    def take(self, data: bytes) -> None:
        self.size += len(data)
        self.body.update(data)

    def answer(self, data: bytes) -> None:
        if not self.answered:
            self.answered = True
            self.transport.write(data)  # type: ignore[union-attr]


class StreamedCase(SocketCase):
    def prepare(self) -> None:
        store_pod(self.api)

    def setUp(self) -> None:
        super().setUp()
        self.pod: Any = Factory.forProtocol(Pod)
        self.pod.connections, self.pod.early, self.pod.reads = [], b"", True
        self.backend = reactor.listenTCP(0, self.pod, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(self._close)
        self.patch(dialer, "is_proxyable", lambda text: True)
        number = self.backend.getHost().port
        self.path = f"{PODS}/p:{number}/proxy/upload"
        self.api.table.handlers.update(built_in_handlers(self.api.registry, reactor, KubeletSettings()))
        self.connections.runner.reactor = reactor
        self.api.runner.streams_body = is_proxied

    async def _close(self) -> None:
        for connection in self.pod.connections:
            connection.transport.abortConnection()
        await maybeDeferred(self.backend.stopListening)

    @property
    def connection(self) -> Pod:
        found: Pod = self.pod.connections[0]
        return found

    async def begin(self, framing: str, method: str = "POST") -> ssl.SSLSocket:
        sock = await self.client()
        sock.sendall(f"{method} {self.path} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        return sock

    def send(self, sock: ssl.SSLSocket, size: int, chunked: bool = False) -> Any:
        def run() -> None:
            for _ in range(size // len(PIECE)):
                sock.sendall(b"%x\r\n%s\r\n" % (len(PIECE), PIECE) if chunked else PIECE)
            if chunked:
                sock.sendall(b"0\r\n\r\n")

        return deferToThread(run)

    def assert_whole(self, size: int) -> None:
        expected = hashlib.sha256()
        for _ in range(size // len(PIECE)):
            expected.update(PIECE)
        self.assertEqual((self.connection.size, self.connection.body.digest()), (size, expected.digest()))

    def send2(self, client: Client2, stream: int, size: int) -> Any:
        """As fast as the windows allow; ends early when the stream does."""

        def run() -> None:
            sent = 0
            while sent < size:
                window = client.state.local_flow_control_window(stream)
                if not window:
                    client.events += client.state.receive_data(client.sock.recv(1 << 16))
                    if any(isinstance(event, h2.events.StreamReset) for event in client.events):
                        return
                    continue
                at = sent % len(PIECE)
                data = PIECE[at : at + min(window, 16384)]
                client.state.send_data(stream, data)
                sent += len(data)
                client.flush()
            client.state.end_stream(stream)
            client.flush()

        return deferToThread(run)
