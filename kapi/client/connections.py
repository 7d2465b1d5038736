"""Requests to one API server over kept connections, for whole answers and for streams (watches, logs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory

from kapi.wire.collected import Collected
from kapi.wire.pool import Connect, Pool
from kapi.wire.transport import Header, Response, Stream

if TYPE_CHECKING:
    from kapi.wire.websocket import WebSocket

MAX_ANSWER = 1024 * 1024 * 1024  # bytes of a whole answer


class Connections(Pool):
    """A Transport to one server.  ``connect`` makes a connection with a protocol factory; ``url`` names the server."""

    def __init__(self, reactor: IReactorTime, url: str, connect: Connect) -> None:
        super().__init__(reactor, connect)
        parsed = urlsplit(url)
        self._base = parsed.path.rstrip("/")
        self._host: Header = (b"Host", parsed.netloc.rpartition("@")[2].encode("ascii"))

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        return Deferred.fromCoroutine(self._request(method, target, headers, body, streaming))

    async def _request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, streaming: bool
    ) -> Response:
        path = (self._base + target).encode("ascii")
        answer = await self.send(method.encode("ascii"), path, [self._host, *headers], body)
        if not streaming or answer.code >= 300:
            return Response(answer.code, answer.headers, await Collected(MAX_ANSWER).read(answer))
        stream = Stream(answer.flow, answer.abort)
        answer.read(stream.feed, stream.finish)
        return Response(answer.code, answer.headers, stream=stream)

    async def websocket(self, target: str, headers: Sequence[Header], protocols: Sequence[str]) -> WebSocket | Response:
        """A WebSocket, or the answer of a server that refuses it.  Cancelling ends the connection."""
        from kapi.wire.websocket import WebSocket

        made = WebSocket(self._reactor, "GET", self._base + target, [self._host, *headers], protocols)
        factory = Factory.forProtocol(lambda: made)
        factory.noisy = False
        await self._connect(factory)
        found: WebSocket | Response = await made.opened
        return found
