"""Requests of the server itself to extension servers, over real sockets: bounded in size and time, and nothing stays open."""

from __future__ import annotations

import base64
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, TimeoutError, inlineCallbacks
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from kapi.servers.aggregator import backend
from kapi.servers.aggregator.availability import Target
from kapi.servers.aggregator.backend import BackendClient, Backends
from kapi.wire.answer import AnswerTooLarge
from tests.certificates import self_signed
from tests.waiting import eventually
from tests.wire.http2_server import options

NAME, KEY = "svc.ns.svc", "v1.example.com"


class Streaming(Protocol):
    """Answers with a head and as much as the factory says, and never ends by itself."""

    factory: Any

    def connectionMade(self) -> None:
        self.factory.open.add(self)

    def connectionLost(self, reason: Any = None) -> None:
        self.factory.open.discard(self)

    def dataReceived(self, data: bytes) -> None:
        self.factory.received += data
        assert self.transport is not None
        self.transport.write(self.factory.answer)


class AskingTests(TestCase):
    def setUp(self) -> None:
        pem, key = self_signed(NAME)
        self.factory: Any = Factory.forProtocol(Streaming)
        self.factory.open, self.factory.received, self.factory.answer = set(), b"", b""
        self.port: Any = reactor.listenSSL(0, self.factory, options(pem=pem + key), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(self.port.stopListening)
        backends = Backends(reactor)
        self.addCleanup(backends.close)
        spec = {"caBundle": base64.b64encode(pem).decode()}
        backends.set(KEY, [Target("127.0.0.1", self.port.getHost().port, NAME)], spec, None)
        self.backend_client = BackendClient(reactor, backends)

    def get(self, seconds: float = 5, limit: int = 0, **more: str) -> Deferred[Any]:
        limit = limit or backend.MAX_ANSWER_BYTES
        ask = self.backend_client.ask(KEY, "/apis/example.com/v1", seconds, limit, **more)
        return Deferred.fromCoroutine(ask)

    @inlineCallbacks
    def closed(self) -> Any:
        """Until the server sees that the connection has ended."""
        yield eventually(lambda: not self.factory.open)

    @inlineCallbacks
    def test_we_ask_as_ourselves(self) -> Any:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
        self.factory.answer = head + b"\r\nok"
        self.assertEqual((yield self.get()), (200, b"ok", "", ""))
        self.assertIn(b"\r\nX-Remote-User: system:apiserver\r\n", self.factory.received)
        self.assertIn(b"\r\nAccept: application/json\r\n", self.factory.received)
        (connection,) = self.factory.open
        self.factory.received, self.factory.answer = b"", head + b'Content-Type: a/b; c=d\r\nETag: "e"\r\n\r\nok'
        self.assertEqual((yield self.get(accept="", etag='"f"')), (200, b"ok", "a/b; c=d", '"e"'))
        self.assertIn(b'\r\nIf-None-Match: "f"\r\n', self.factory.received)
        self.assertNotIn(b"Accept:", self.factory.received)
        self.assertEqual(self.factory.open, {connection})

    @inlineCallbacks
    def test_too_long_an_answer_is_not_read_on(self) -> Any:
        self.patch(backend, "MAX_ANSWER_BYTES", 100_000)
        self.factory.answer = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3_000_000
        yield self.assertFailure(self.get(), AnswerTooLarge)
        yield self.closed()
        self.factory.answer = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50_000
        yield self.assertFailure(self.get(limit=20_000), AnswerTooLarge)
        yield self.closed()

    @inlineCallbacks
    def test_an_answer_that_never_ends_is_not_waited_for(self) -> Any:
        for begun in (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx", b"HTTP/1.1 "):
            self.factory.answer = begun
            late = yield self.assertFailure(self.get(0.3), TimeoutError)
            self.assertEqual(str(late), "context deadline exceeded")
            yield self.closed()
