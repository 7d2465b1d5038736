"""A proxy that knows CONNECT, in threads: over TCP, TLS or a unix socket."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import tempfile
import threading
from pathlib import Path

Certificate = tuple[bytes, bytes]


class ConnectProxy:
    """``asked`` has the head of each request.  ``answer`` is sent instead of a tunnel; with ``hangs`` nothing is.

    ``hosts`` are names that only the proxy knows.
    """

    def __init__(
        self,
        path: Path | None = None,
        certificate: Certificate | None = None,
        authority: bytes = b"",
        answer: bytes = b"",
    ) -> None:
        self.asked: list[bytes] = []
        self.hosts: dict[str, str] = {}
        self.answer = answer
        self.hangs = False
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            with tempfile.NamedTemporaryFile() as file:
                Path(file.name).write_bytes(certificate[0] + certificate[1])
                self._context.load_cert_chain(file.name)
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(cadata=authority.decode())
        if path is not None:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen()
        else:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(client.close)
            client.settimeout(120)
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
                stack.callback(client.close)
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(65536)
                if not data:
                    return
                head += data
            self.asked.append(head)
            if self.hangs:
                client.recv(1)
                return
            if self.answer:
                client.sendall(self.answer)
                return
            host, _, port = head.split()[1].decode().rpartition(":")
            target = stack.enter_context(socket.create_connection((self.hosts.get(host, host), int(port)), 5))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            _tunnel(client, target)


def _tunnel(client: socket.socket, target: socket.socket) -> None:
    """Copies both ways in one thread, until either end closes: a TLS socket cannot be read and written at the same time."""
    others = {client: target, target: client}
    while True:
        ready = (
            [client] if isinstance(client, ssl.SSLSocket) and client.pending() else select.select([*others], (), ())[0]
        )
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            others[source].sendall(data)
