"""A server in memory beside a kubelet on a socket."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor, ssl
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import TestCase

from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.servers.core.handlers import built_in_handlers
from kapi.testing.http import MemoryChannel, MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.certificates import self_signed

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


class Kubelet(Protocol):
    """Answers the first request's head with the factory's answer and keeps everything it got."""

    factory: Any

    def connectionMade(self) -> None:
        self.factory.connections.append(self)

    def connectionLost(self, reason: Any = None) -> None:
        self.connected = 0

    def dataReceived(self, data: bytes) -> None:
        self.factory.received += data
        if b"\r\n\r\n" in self.factory.received and self.factory.answer:
            assert self.transport is not None
            self.transport.write(self.factory.answer)
            self.factory.answer = b""


class Owner:
    """The HTTP protocol of a client's connection, as far as a tunnel takes it over."""

    def dataReceived(self, data: bytes) -> None:
        raise AssertionError("nobody took the connection")


class Channel(MemoryChannel):
    def __init__(self) -> None:
        super().__init__()
        self.transport = StringTransport()
        self.transport.wrappedProtocol = Owner()  # type: ignore[attr-defined]
        self.transport.registerProducer(self, True)  # as twisted.web does for a request that is being answered

    def unread(self) -> bytes:
        return b"early"


class ConnectCase(TestCase):
    def setUp(self) -> None:
        self.pem, key = self_signed("127.0.0.1")
        pair = ssl.PrivateCertificate.loadPEM(self.pem + key)
        self.factory: Any = Factory.forProtocol(Kubelet)
        self.factory.received, self.factory.answer, self.factory.connections = b"", b"", []
        self.port = reactor.listenSSL(0, self.factory, pair.options(), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(self._close)
        self.api: MemoryAPI = succeed(MemoryAPI.started())
        self.use(KubeletSettings())
        node = {
            "metadata": {"name": "node"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port.getHost().port}},
            },
        }
        self.api.ask("POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", **node})
        for name, node_name in (("p", "node"), ("unplaced", ""), ("lost", "gone")):
            spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "nodeName": node_name}
            pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}
            assert self.api.ask("POST", PODS, pod).code == 201

    def use(self, settings: KubeletSettings) -> None:
        self.api.table.handlers.update(built_in_handlers(self.api.registry, reactor, settings))

    @inlineCallbacks
    def _close(self) -> Any:
        for connection in self.factory.connections:
            if connection.connected:
                connection.transport.loseConnection()
        yield self.port.stopListening()
        yield self.pause()

    def pause(self, seconds: float = 0.05) -> Any:
        return deferLater(reactor, seconds)

    @inlineCallbacks
    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, answer: bytes = b"") -> Any:
        self.factory.answer = answer
        request = MemoryRequest(method, path, {"User-Agent": "tests/1", **(headers or {})}, channel=Channel())
        done: Deferred[None] = request.notifyFinish()
        self.api.runner.serve(request)
        if not request.finished:
            yield done
        return request
