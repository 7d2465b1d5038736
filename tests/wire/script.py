"""A server that says what a test wants it to say, byte for byte."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol


class Script(Protocol):
    """Answers each request with the next pieces of the factory's script; None closes the connection.

    ``lost`` fires when the connection has ended.
    """

    factory: Any
    buffer = b""

    def connectionMade(self) -> None:
        self.factory.connections.append(self)
        self.lost: Deferred[None] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            length = int(head.rpartition(b"Content-Length: ")[2]) if b"Content-Length" in head else 0
            if len(rest) < length:
                return
            self.factory.requests.append((head, rest[:length]))
            self.buffer = rest[length:]
            for piece in self.factory.script.pop(0) if self.factory.script else ():
                if piece is None:
                    self.transport.loseConnection()  # type: ignore[union-attr]
                else:
                    self.transport.write(piece)  # type: ignore[union-attr]

    def connectionLost(self, reason: Any = None) -> None:
        self.lost.callback(None)


def scripted() -> Any:
    """A factory with the ``script``, the ``requests`` (head, body) and the ``connections`` so far."""
    factory: Any = Factory.forProtocol(Script)
    factory.script, factory.requests, factory.connections = [], [], []
    return factory
