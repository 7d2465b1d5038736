"""Servers that kapi calls: extension servers, webhooks, kubelets; each says what a test wants, over TLS, in threads."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.admission.certificates import make_certificate
from tests.store.servers import free_port

#: given the head and the body of a request: the bytes to answer
Speak = Callable[[bytes, bytes], bytes]


class Backend:
    """``speak`` answers each connection's first request; without it every connection is accepted and never answered."""

    def __init__(self, speak: Speak | None = None, name: str = "localhost") -> None:
        self._speak = speak
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections: list[socket.socket] = []
        self.certificate, key = make_certificate(name)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "pair.pem"
            file.write_bytes(key + self.certificate)
            self._context.load_cert_chain(file)
        self._listen(free_port())  # which stays free while it is dead

    def _listen(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                plain, _ = server.accept()
            except OSError:
                return
            self.connections.append(plain)
            if self._speak is not None:
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        assert self._speak is not None
        with suppress(OSError, ValueError):
            plain.settimeout(120)
            connection = self._context.wrap_socket(plain, server_side=True)
            data = bytearray()
            while b"\r\n\r\n" not in data:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            head, _, rest = bytes(data).partition(b"\r\n\r\n")
            body = bytearray(rest)
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            while lengths and len(body) < int(lengths[0].partition(b":")[2]):
                body += connection.recv(65536)
            self.requests.append((head, bytes(body)))
            connection.sendall(self._speak(*self.requests[-1]))
            connection.unwrap()
            connection.close()

    def kill(self) -> None:
        """Nobody listens any more, and what was connected is reset."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self.connections:
            with suppress(OSError):
                connection.close()
        self.connections.clear()

    def revive(self) -> None:
        self._listen(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()


def http(body: bytes, status: bytes = b"200 OK", kind: bytes = b"application/json", *headers: bytes) -> bytes:
    """An answer, after which the connection ends."""
    lines = [b"HTTP/1.1 " + status, b"Content-Type: " + kind, b"Content-Length: %d" % len(body), b"Connection: close"]
    return b"\r\n".join([*lines, *headers]) + b"\r\n\r\n" + body
