"""A request in memory: the server's own, over a channel that collects the answer."""

from __future__ import annotations

import io

import orjson
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure

from kapi.machinery.tree import Object, Tree
from kapi.serving.request import APIRequest


class MemoryChannel:
    """Collects the bytes of an answer's body."""

    factory = None

    transport: object = None

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.producer: IPushProducer | None = None

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: object) -> None:
        """Does nothing: the request has them."""

    def write(self, data: bytes) -> None:
        self.chunks.append(data)

    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None:
        self.producer = producer
        while not streaming and self.producer is not None:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:
        self.producer = None

    def requestDone(self, request: object) -> None:
        """Does nothing: no request follows."""

    def getPeer(self) -> None:
        """None, since there is no address."""

    getHost = getPeer

    def isSecure(self) -> bool:
        return True


class MemoryRequest(APIRequest):
    """Has the answer in ``code``, ``responseHeaders`` and ``written``; ``finished`` is set at its end."""

    def __init__(
        self,
        method: str,
        uri: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        channel: MemoryChannel | None = None,
    ) -> None:
        channel = channel or MemoryChannel()
        super().__init__(channel)
        self.chunks = channel.chunks
        self.method, self.uri, self.clientproto = method.encode(), uri.encode(), b"HTTP/1.1"
        for name, value in (headers or {}).items():
            self.requestHeaders.setRawHeaders(name.encode(), [value.encode()])
        self.content = io.BytesIO(body)
        self.body_size = len(body)

    def shrink(self) -> None:
        """Keeps everything for the test."""

    def abort(self) -> None:
        """Called by the server to end an incomplete answer."""
        self.disconnect()

    def disconnect(self) -> None:
        """Simulates that the client closes its connection."""
        self.connectionLost(Failure(ConnectionDone()))

    @property
    def written(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Tree:
        """The body as JSON."""
        return orjson.loads(self.written)

    @property
    def events(self) -> list[Object]:
        """The events of a watch so far."""
        return [orjson.loads(line) for line in self.written.splitlines()]

    def header(self, name: str) -> str:
        """A response header, "" when there is none."""
        values = self.responseHeaders.getRawHeaders(name) or [""]
        return values[0]

    @property
    def warnings(self) -> list[str]:
        return list(self.responseHeaders.getRawHeaders("warning") or [])
