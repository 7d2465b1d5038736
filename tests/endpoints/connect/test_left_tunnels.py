"""Tunnels whose one end goes while nothing moves: both connections end, whoever goes first and whatever is unread."""

from __future__ import annotations

import ssl as tls
from socket import IPPROTO_TCP, SO_KEEPALIVE, SOL_SOCKET, TCP_KEEPIDLE
from typing import Any

from twisted.internet import reactor, tcp
from twisted.internet.defer import maybeDeferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.threads import deferToThread

from kapi.endpoints import tunnel
from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.filters.chain import FilterChain
from kapi.request import departure
from kapi.request.user import UserInfo
from kapi.servers.aggregator.availability import Target
from kapi.servers.aggregator.backend import Backends
from kapi.servers.aggregator.proxy import ReverseProxy
from kapi.servers.core.handlers import built_in_handlers
from kapi.wire import dial as dialer
from tests.certificates import self_signed
from tests.endpoints.connect.local_pod import PODS, store_pod
from tests.serving.sockets import SocketCase, until_seen
from tests.serving.test_leaving import close, reset
from tests.wire.http2_server import options

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n"
UPGRADE = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
PIECE = b"x" * 65536


class Pod(Protocol):
    """Upgrades at once, and then reads nothing more; or, ``silent``, does not even upgrade."""

    factory: Any
    lost = False

    def connectionMade(self) -> None:
        self.factory.connections.append(self)

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = True

    def dataReceived(self, data: bytes) -> None:
        self.factory.received += len(data)
        if self.factory.received != len(data):
            return
        if not self.factory.silent:
            self.transport.write(UPGRADED)  # type: ignore[union-attr]
        if not self.factory.reads:
            self.transport.pauseProducing()  # type: ignore[union-attr]


class LeftCase(SocketCase):
    scheme = "http"

    def prepare(self) -> None:
        store_pod(self.api)

    def setUp(self) -> None:
        super().setUp()
        self.pod: Any = Factory.forProtocol(Pod)
        self.pod.connections, self.pod.received, self.pod.reads, self.pod.silent = [], 0, False, False
        pem, key = self_signed("127.0.0.1")
        listen: Any = reactor
        if self.scheme == "https":
            self.backend = listen.listenSSL(0, self.pod, options(pem=pem + key), interface="127.0.0.1")
        else:
            self.backend = listen.listenTCP(0, self.pod, interface="127.0.0.1")
        self.addCleanup(self._close)
        self.patch(dialer, "is_proxyable", lambda text: True)
        self.path = f"{PODS}/{self.scheme}:p:{self.backend.getHost().port}/proxy/x"
        self.api.table.handlers.update(built_in_handlers(self.api.registry, reactor, KubeletSettings()))
        self.connections.runner.reactor = reactor
        self.patch(departure, "LOOK_SECONDS", 0.05)
        self.patch(tunnel, "CLOSE_TIMEOUT", 120.0)

    async def _close(self) -> None:
        for connection in self.pod.connections:
            if not connection.lost:
                connection.transport.abortConnection()
        await maybeDeferred(self.backend.stopListening)

    @property
    def connection(self) -> Any:
        return self.pod.connections[0]

    async def begin(self, more: bytes = b"") -> tls.SSLSocket:
        sock = await self.client()
        sock.sendall(f"GET {self.path} HTTP/1.1\r\nHost: x\r\n{UPGRADE}".encode() + more)
        return sock

    async def opened(self) -> tls.SSLSocket:
        sock = await self.begin()
        await until_seen(sock, b"\r\n\r\n")
        return sock

    def fill(self, sock: tls.SSLSocket) -> Any:
        """Sends until nobody takes more."""

        def run() -> None:
            sock.settimeout(0.5)
            try:
                while True:
                    sock.sendall(PIECE)
            except TimeoutError:
                pass

        return deferToThread(run)

    def _swept_away(self) -> bool:
        self.clock.advance(1)
        return not self.connections.open

    async def nothing_is_left(self) -> None:
        await self.until(lambda: not self.connections.open)
        await self.until(lambda: all(connection.lost for connection in self.pod.connections))
        self.assertEqual(self.flushLoggedErrors(), [])


class LeftTunnels(LeftCase):
    async def test_a_backend_that_vanishes_is_noticed_by_keep_alive(self) -> None:
        await self.opened()
        [socket] = [
            each.socket
            for each in reactor.getReaders()  # type: ignore[attr-defined]
            if isinstance(each, tcp.Client) and each.getPeer().port == self.backend.getHost().port
        ]
        self.assertTrue(socket.getsockopt(SOL_SOCKET, SO_KEEPALIVE))
        self.assertEqual(socket.getsockopt(IPPROTO_TCP, TCP_KEEPIDLE), 30)

    async def test_a_client_goes_while_the_backend_is_silent(self) -> None:
        self.pod.reads = True
        for end in (close, reset):
            end(await self.opened())
            await self.nothing_is_left()
            self.pod.received = 0

    async def test_a_backend_goes_while_the_client_is_silent(self) -> None:
        self.pod.reads = True
        for how in ("loseConnection", "abortConnection"):
            await self.opened()
            getattr(self.pod.connections[-1].transport, how)()
            await self.nothing_is_left()
            self.pod.received = 0

    async def test_a_client_goes_whose_bytes_nobody_reads(self) -> None:
        """By a reset: a goodbye would wait behind the bytes that do not fit into the buffers of the sockets."""
        self.patch(tunnel, "CLOSE_TIMEOUT", 0.3)
        sock = await self.opened()
        await self.fill(sock)
        reset(sock)
        await self.until(lambda: not self.connections.open)
        self.connection.transport.resumeProducing()  # to see that it is closed
        await self.nothing_is_left()

    async def test_a_slow_backend_gets_all_that_a_client_has_sent_before_it_went(self) -> None:
        sock = await self.opened()
        sent = 64 * len(PIECE)
        await deferToThread(lambda: [sock.sendall(PIECE) for _ in range(64)])
        before = self.pod.received
        sock.close()
        self.connection.transport.resumeProducing()
        await self.nothing_is_left()
        self.assertEqual(self.pod.received, before + sent)

    async def test_a_backend_goes_whose_bytes_nobody_reads(self) -> None:
        self.patch(tunnel, "CLOSE_TIMEOUT", 0.3)
        self.pod.reads = True
        sock = await self.client(receive_buffer=4096)
        sock.sendall(f"GET {self.path} HTTP/1.1\r\nHost: x\r\n{UPGRADE}".encode())
        await until_seen(sock, b"\r\n\r\n")
        self.connection.transport.write(PIECE * 400)
        [channel] = self.channels()
        await self.until(lambda: channel.transport.producerPaused)
        self.connection.transport.abortConnection()
        await self.nothing_is_left()

    async def test_a_client_goes_before_the_backend_has_decided(self) -> None:
        """What it has sent already is more than waits here, so that nothing is read from it any more."""
        self.pod.silent = True
        for more in (b"", PIECE * 2):
            for end in (close, reset):
                sock = await self.begin(more)
                await self.until(lambda: self.pod.received)
                end(sock)
                await self.until(self._swept_away)
                self.connection.transport.resumeProducing()
                await self.nothing_is_left()
                self.pod.received, self.pod.connections = 0, []


class LeftTLSTunnels(LeftTunnels):
    """The same, to a backend that speaks TLS, as kubelets and aggregated servers do."""

    scheme = "https"


class LeftAggregatedTunnels(LeftTunnels):
    """The same, to the server behind an APIService."""

    scheme = "https"

    def setUp(self) -> None:
        super().setUp()
        backends = Backends(reactor)  # type: ignore[arg-type]
        target = Target("127.0.0.1", self.backend.getHost().port, "svc.ns.svc")
        backends.set("v1.example.com", [target], {"insecureSkipTLSVerify": True}, None)
        proxy = ReverseProxy(reactor, backends)  # type: ignore[arg-type]

        def identified(ctx: Any) -> None:
            ctx.user = UserInfo("alice")

        self.api.runner.chain = FilterChain([identified], lambda ctx: proxy.handle(ctx, "v1.example.com"))
