"""Requests to one API server over kept connections, for whole answers and for streams (watches, logs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory

from kapi.wire.answer import Answer
from kapi.wire.head import header_line, request_line
from kapi.wire.pool import Connect, KeptConnections
from kapi.wire.transport import Header, Response, Stream

if TYPE_CHECKING:
    from kapi.wire.websocket import WebSocket

MAX_ANSWER = 1024 * 1024 * 1024  # bytes of a whole answer


class Connections(KeptConnections[Response]):
    """A Transport to one server.  ``connect`` makes a connection with a protocol factory; ``url`` names the server."""

    def __init__(self, reactor: IReactorTime, url: str, connect: Connect) -> None:
        super().__init__(reactor, connect, MAX_ANSWER)
        parsed = urlsplit(url)
        self._base = parsed.path.rstrip("/")
        self._host = header_line(b"Host", parsed.netloc.rpartition("@")[2].encode("ascii"))

    def answered(self, answer: Answer, body: bytes, stream: Stream | None = None) -> Response:
        return Response(answer.code, answer.headers, body, stream)

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        lines = [request_line(method.encode("ascii"), (self._base + target).encode("ascii")), self._host]
        lines += [header_line(name, value) for name, value in headers]
        if body is not None:
            lines.append(b"Content-Length: %d" % len(body))
        data = b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")
        return self._ask(data, streaming, bodiless=method == "HEAD")

    async def websocket(self, target: str, headers: Sequence[Header], protocols: Sequence[str]) -> WebSocket | Response:
        """A WebSocket, or the answer of a server that refuses it.  Cancelling ends the connection."""
        from kapi.wire.websocket import WebSocket

        named = [(b"Host", self._host.partition(b": ")[2]), *headers]
        made = WebSocket(self._reactor, "GET", self._base + target, named, protocols)
        factory = Factory.forProtocol(lambda: made)
        factory.noisy = False
        await self._connect(factory)
        found: WebSocket | Response = await made.opened
        return found

    def forget(self) -> None:
        """Closes idle connections, which were made with old credentials."""
        idle, self.idle = self.idle, []
        for connection in idle:
            connection.abort()
