"""What a TLS transport stands on, by scripts: OpenSSL's connection, and the reactor's descriptors."""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL
from twisted.internet.task import Clock

from kapi.wire.tls.writing import RECORD_BYTES

FULL = b"x" * RECORD_BYTES


class Reactor(Clock):
    """Which descriptors it polls."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[Any] = set()
        self.writers: set[Any] = set()
        self.addReader, self.removeReader = self.readers.add, self.readers.discard
        self.addWriter, self.removeWriter = self.writers.add, self.writers.discard


class OpenSSL:
    """Does what its scripts say, then waits for bytes to read; an error is raised."""

    def __init__(self) -> None:
        self.handshakes: list[Any] = []
        self.records: list[Any] = []
        self.ended = 0
        self.alpn = b""
        self.problem: Exception | None = None  # of the shutdown

    def do_handshake(self) -> None:
        _next(self.handshakes)

    def recv(self, size: int) -> bytes:
        assert size == RECORD_BYTES
        return bytes(_next(self.records))

    def send(self, data: bytes) -> int:
        return len(data)

    def shutdown(self) -> None:
        self.ended += 1
        if self.problem is not None:
            raise self.problem

    def get_alpn_proto_negotiated(self) -> bytes:
        return self.alpn


def _next(script: list[Any]) -> Any:
    found = script.pop(0) if script else SSL.WantReadError()
    if isinstance(found, Exception):
        raise found
    return found
