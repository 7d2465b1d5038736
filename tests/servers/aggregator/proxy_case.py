"""A reverse proxy before a server on a socket."""

from __future__ import annotations

import base64
import io
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase
from twisted.web.http_headers import Headers

from kapi.request.context import RequestContext
from kapi.request.response import StreamResponse
from kapi.request.user import UserInfo
from kapi.servers.aggregator.availability import Target
from kapi.servers.aggregator.backend import Backends
from kapi.servers.aggregator.proxy import ReverseProxy
from tests.certificates import self_signed
from tests.wire.http2_server import options

NAME = "svc.ns.svc"
KEY = "v1.example.com"


class Canned(Protocol):
    """Answers every request head with the factory's answer and keeps what it got."""

    factory: Any

    def connectionMade(self) -> None:
        self.factory.connections.append(self)

    def connectionLost(self, reason: Any = None) -> None:
        self.connected = 0

    def dataReceived(self, data: bytes) -> None:
        self.factory.received += data
        if self.factory.answer and b"\r\n\r\n" in self.factory.received and not self.factory.answered:
            self.factory.answered = True
            assert self.transport is not None
            self.transport.write(self.factory.answer)


class Ignored:
    """Where a body comes from, to whom it is all the same who takes it."""

    def body_waits(self, size: int) -> None: ...

    def body_taken(self, size: int) -> None: ...


class Http:
    """A request as the server has it, with a response that is only collected."""

    def __init__(self, method: bytes, uri: bytes, headers: dict[bytes, list[bytes]], body: bytes = b"") -> None:
        self.method, self.uri = method, uri
        self.requestHeaders = Headers(headers)
        self.content = io.BytesIO(body)
        self.written = b""
        self.finished = self.gone = False

    def getHeader(self, name: str) -> str | None:
        values = self.requestHeaders.getRawHeaders(name)
        return values[-1] if values else None

    def registerProducer(self, producer: Any, streaming: bool) -> None: ...

    def unregisterProducer(self) -> None: ...

    def notifyFinish(self) -> Deferred[None]:
        self.over: Deferred[None] = Deferred()
        return self.over

    def write(self, data: bytes) -> None:
        self.written += data

    def finish(self) -> None:
        self.finished = True

    def abort(self) -> None:
        self.gone = True


class ProxyCase(TestCase):
    protocols: tuple[bytes, ...] = ()  # that the server chooses from

    def setUp(self) -> None:
        pem, key = self_signed(NAME)
        self.pem, self.pair = pem, pem + key
        self.factory = self.server()
        chosen = options(*self.protocols, pem=self.pair)
        self.port = reactor.listenSSL(0, self.factory, chosen, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(self.port.stopListening)
        self.backends = Backends(reactor)
        self.failed: list[str] = []
        self.proxy = ReverseProxy(reactor, self.backends, self.failed.append)
        self.addCleanup(self.proxy.close)
        self.trust(NAME)

    def server(self) -> Any:
        """A factory for the server's connections."""
        factory: Any = Factory.forProtocol(Canned)
        factory.received, factory.answered, factory.answer, factory.connections = b"", False, b"", []
        return factory

    def trust(self, name: str) -> None:
        spec = {"caBundle": base64.b64encode(self.pem).decode()}
        number = self.port.getHost().port
        self.backends.set(KEY, [Target("127.0.0.1", number, name)], spec, None)

    user = UserInfo("alice", groups=("dev",), extra={"example.com/a": ("1",)})

    def context(self, http: Http) -> RequestContext:
        ctx = RequestContext(http, http.method.decode(), http.uri.decode().partition("?")[0], {})
        ctx.user = self.user
        ctx.audit_id = "audit"
        return ctx

    def answer(self, text: bytes) -> None:
        self.factory.answer = text

    @property
    def received(self) -> bytes:
        found: bytes = self.factory.received
        return found

    @inlineCallbacks
    def request(self, http: Http) -> Any:
        waiting = self.proxy.handle(self.context(http), KEY)
        response = yield Deferred.fromCoroutine(waiting)  # type: ignore[arg-type]
        if isinstance(response, StreamResponse):
            yield response.run(http)
        return response
