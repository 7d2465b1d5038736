"""The client port of the drop-in etcd: HTTP for health checks, and the store's own protocol for kube-apiserver.

The first byte of a connection shows its protocol: a command of the store begins with ``*``, an HTTP request with a letter.  The
store's server listens on a unix socket in the data directory; its connections are forwarded, with back-pressure in both
directions.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from kapi.request.transport import StreamTransport

log = Logger()
_FIRST_BYTE_SECONDS = 30.0  # until the first byte of a connection must have come
_CONNECT_SECONDS = 5.0  # for the store's server to accept a connection
_STORE = b"*"
#: the versions in the answers; clients compare the first two numbers
VERSION = {"etcdserver": "3.6.6", "etcdcluster": "3.6.0", "storage": "3.6.0"}
#: returns why the store does not answer, "" when it does
Probe = Callable[[], Awaitable[str]]


class _End(Protocol):
    """One end of a forwarded connection: data is written to the other end."""

    transport: StreamTransport

    def __init__(self) -> None:
        self.other: _End | None = None

    def dataReceived(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def connectionLost(self, reason: object = None) -> None:
        """Closes the other end after its buffered data; it must no longer wait for this end as its producer."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.unregisterProducer()
            self.other.transport.loseConnection()


class ClientConnection(Protocol):
    """A connection whose protocol is chosen by its first byte."""

    transport: StreamTransport

    def __init__(self, factory: ClientPort) -> None:
        self._port = factory
        self._inner: _End | None = None
        self._waiting = b""
        self._connecting: Deferred[_End] | None = None
        self._first_byte_timer: IDelayedCall | None = None

    def connectionMade(self) -> None:
        self._port.connections.add(self)
        self._first_byte_timer = self._port.reactor.callLater(_FIRST_BYTE_SECONDS, self._drop)

    def dataReceived(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.dataReceived(data)
        elif self._connecting is not None:
            self._waiting += data  # at most what was read before the pause
        elif data[:1] == _STORE and self._port.socket_path:
            self._stop_timer()
            self._waiting = data
            self.transport.pauseProducing()
            self._connect()
        else:
            self._stop_timer()
            self._inner = self._port.site.buildProtocol(self.transport.getPeer())
            self._inner.makeConnection(self.transport)
            self._inner.dataReceived(data)

    def _connect(self) -> None:
        endpoint = UNIXClientEndpoint(self._port.reactor, self._port.socket_path, timeout=_CONNECT_SECONDS)
        self._connecting = endpoint.connect(Factory.forProtocol(_End))
        self._connecting.addCallbacks(self._join, self._refused)

    def _join(self, store: _End) -> None:
        self._connecting = None
        client = self.transport
        if client is None or self not in self._port.connections:
            store.transport.loseConnection()
            return
        inner = _End()
        inner.transport = client
        inner.other, store.other = store, inner
        self._inner = inner
        behind = store.transport
        behind.registerProducer(client, True)
        client.registerProducer(behind, True)
        waiting, self._waiting = self._waiting, b""
        inner.dataReceived(waiting)
        client.resumeProducing()

    def _refused(self, failure: Failure) -> None:
        self._connecting = None
        log.warn("the store's server takes no connection: {why}", why=failure.getErrorMessage())
        self._drop()

    def _stop_timer(self) -> None:
        if self._first_byte_timer is not None and self._first_byte_timer.active():
            self._first_byte_timer.cancel()

    def _drop(self) -> None:
        if self.transport is not None:
            self.transport.abortConnection()

    def connectionLost(self, reason: object = None) -> None:
        self._port.connections.discard(self)
        self._stop_timer()
        if self._inner is not None:
            self._inner.connectionLost(reason)
        if self._connecting is not None:
            self._connecting.cancel()


class ClientPort(Factory):
    """Without a ``socket_path`` it answers HTTP only."""

    noisy = False

    def __init__(self, reactor: IReactorTime, probe: Probe, socket_path: str = "") -> None:
        self.reactor = reactor
        self.socket_path = socket_path
        self.connections: set[ClientConnection] = set()
        root = Resource()
        for name, page in (("health", _Health(probe)), ("version", _Version()), ("readyz", _Ready(probe))):
            root.putChild(name.encode(), page)
        root.putChild(b"livez", _Ready(probe))
        self.site = Site(root)
        self.site.noisy = False
        self.site.log = lambda request: None  # type: ignore[method-assign]

    def buildProtocol(self, addr: object) -> ClientConnection:
        return ClientConnection(self)

    def drop_all(self) -> None:
        for connection in list(self.connections):
            connection._drop()


class _Version(Resource):
    isLeaf = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def render_GET(self, request: Request) -> bytes:
        request.setHeader("Content-Type", "application/json")
        return json.dumps(VERSION, separators=(",", ":")).encode()


class _Probing(Resource):
    """Asks the store, then answers."""

    isLeaf = True
    content_type = "application/json"

    def __init__(self, probe: Probe) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._probe = probe

    def text(self, reason: str) -> str:
        raise NotImplementedError

    def render_GET(self, request: Request) -> int:
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)
        Deferred.fromCoroutine(self._answer(request, gone)).addErrback(
            lambda failure: log.failure("a health check failed", failure)
        )
        return NOT_DONE_YET

    async def _answer(self, request: Request, gone: list[Failure]) -> None:
        reason = await self._probe()
        if gone:
            return
        request.setResponseCode(503 if reason else 200)
        request.setHeader("Content-Type", self.content_type)
        request.write(self.text(reason).encode())
        request.finish()


class _Health(_Probing):
    def text(self, reason: str) -> str:
        return json.dumps({"health": "false" if reason else "true", "reason": reason}, separators=(",", ":"))


class _Ready(_Probing):
    content_type = "text/plain; charset=utf-8"

    def text(self, reason: str) -> str:
        return f"[-]data failed: {reason}\n" if reason else "ok\n"
