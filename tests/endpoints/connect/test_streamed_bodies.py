"""Large bodies on their way to a pod: bounded in memory, no faster than the pod reads, over both protocols."""

from __future__ import annotations

import hashlib
import ssl
from typing import Any

import h2.events
import h2.exceptions
import pytest
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure

from kapi.client import dialer
from kapi.core.handlers import built_in_handlers
from kapi.endpoints import exchange
from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.endpoints.connect.proxy import is_proxied
from kapi.endpoints.exchange import Exchange
from kapi.filters.chain import FilterChain
from tests.server.sockets import Client2, SocketCase, rest, send_and_read, until_seen
from tests.waiting import MAX_WAIT

PODS = "/api/v1/namespaces/default/pods"
MEGA = 1 << 20
LARGE = 50 * MEGA
PIECE = bytes(range(256)) * 256  # 64 KiB
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


@pytest.mark.parametrize(
    ("uri", "proxied"),
    [
        (b"/api/v1/namespaces/a/pods/p:80/proxy", True),
        (b"/api/v1/namespaces/a/services/https:s:443/proxy/x?y=/z", True),
        (b"/api/v1/nodes/n/proxy?x", True),
        (b"/clusters/c/api/v1/nodes/n/proxy/", True),
        (b"/api/v1/namespaces/a/pods/proxy", False),
        (b"/api/v1/namespaces/a/configmaps/c/proxy", False),
        (b"/api/v1/namespaces/a/pods/p/proxying", False),
        (b"/apis/apps/v1/namespaces/a/pods/p/proxy", False),
        (b"/api/v1/namespaces/a/pods?x=/api/v1/nodes/n/proxy/", False),
    ],
)
def test_what_is_passed_on_is_seen_by_its_target(uri: bytes, proxied: bool) -> None:
    assert is_proxied(uri) is proxied


class Pod(Protocol):
    """Reads a request, and answers when its body is whole, or with ``early`` as soon as its head is here."""

    factory: Any

    def connectionMade(self) -> None:
        self.factory.connections.append(self)
        self.head = b""
        self.body = hashlib.sha256()
        self.size = 0
        self.raw = b""  # of chunks
        self.chunked = False
        self.length: int | None = None
        self.answered = self.lost = False
        if not self.factory.reads:
            self.transport.pauseProducing()  # type: ignore[union-attr]

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = True

    def dataReceived(self, data: bytes) -> None:
        if b"\r\n\r\n" not in self.head:
            self.head += data
            if b"\r\n\r\n" not in self.head:
                return
            head, _, data = self.head.partition(b"\r\n\r\n")
            self.head = head + b"\r\n\r\n"
            lower = head.lower()
            self.chunked = b"transfer-encoding: chunked" in lower
            if not self.chunked:
                self.length = int(lower.partition(b"content-length: ")[2].split(b"\r")[0])
            if self.factory.early:
                self.answer(self.factory.early)
        if self.chunked:
            self.raw += data
            while (line := self.raw.find(b"\r\n")) >= 0:
                size = int(self.raw[:line], 16)
                if len(self.raw) < line + size + 4:
                    break
                self.take(self.raw[line + 2 : line + 2 + size])
                self.raw = self.raw[line + size + 4 :]
                if not size:
                    self.answer(OK)
        else:
            self.take(data)
            if self.size == self.length:
                self.answer(OK)

    def take(self, data: bytes) -> None:
        self.size += len(data)
        self.body.update(data)

    def answer(self, data: bytes) -> None:
        if not self.answered:
            self.answered = True
            self.transport.write(data)  # type: ignore[union-attr]


class StreamedBodies(SocketCase):
    timeout = 120

    def setUp(self) -> None:
        super().setUp()
        self.pod: Any = Factory.forProtocol(Pod)
        self.pod.connections, self.pod.early, self.pod.reads = [], b"", True
        self.backend = reactor.listenTCP(0, self.pod, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(self._close)
        self.patch(dialer, "is_proxyable", lambda text: True)
        number = self.backend.getHost().port
        spec = {"containers": [{"name": "c", "image": "i"}]}
        assert self.api.ask("POST", PODS, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": spec})
        status = {"status": {"podIPs": [{"ip": "127.0.0.1"}], "podIP": "127.0.0.1"}}
        merge = "application/merge-patch+json"
        assert self.api.ask("PATCH", f"{PODS}/p/status", status, type=merge).code == 200
        self.path = f"{PODS}/p:{number}/proxy/upload"
        self.api.table.handlers.update(built_in_handlers(self.api.registry, reactor, KubeletSettings()))
        self.connections.runner.reactor = reactor
        self.api.runner.streams_body = is_proxied

    async def _close(self) -> None:
        for connection in self.pod.connections:
            connection.transport.abortConnection()
        await maybeDeferred(self.backend.stopListening)

    @property
    def connection(self) -> Pod:
        found: Pod = self.pod.connections[0]
        return found

    # -- HTTP/1.1

    async def begin(self, framing: str, method: str = "POST") -> ssl.SSLSocket:
        sock = await self.client()
        sock.sendall(f"{method} {self.path} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        return sock

    def send(self, sock: ssl.SSLSocket, size: int, chunked: bool = False) -> Any:
        def run() -> None:
            for _ in range(size // len(PIECE)):
                sock.sendall(b"%x\r\n%s\r\n" % (len(PIECE), PIECE) if chunked else PIECE)
            if chunked:
                sock.sendall(b"0\r\n\r\n")

        return deferToThread(run)

    def assert_whole(self, size: int) -> None:
        expected = hashlib.sha256()
        for _ in range(size // len(PIECE)):
            expected.update(PIECE)
        self.assertEqual((self.connection.size, self.connection.body.digest()), (size, expected.digest()))

    async def test_a_body_with_a_length(self) -> None:
        sock = await self.begin(f"Content-Length: {LARGE}")
        await self.send(sock, LARGE)
        answer = await until_seen(sock, b"hello\r\n0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        self.assert_whole(LARGE)
        self.assertIn(b"Content-Length: %d\r\n" % LARGE, self.connection.head)
        self.assertEqual(self.api.runner.pending.size, 0)
        # the connection goes on: a small body takes the usual way
        sock.sendall(f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc".encode())
        self.assertTrue((await until_seen(sock, b"hello\r\n0\r\n\r\n")).startswith(b"HTTP/1.1 200"))

    async def test_a_body_in_chunks(self) -> None:
        sock = await self.begin("Transfer-Encoding: chunked")
        await self.send(sock, LARGE, chunked=True)
        answer = await until_seen(sock, b"hello\r\n0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        self.assert_whole(LARGE)
        self.assertIn(b"Transfer-Encoding: chunked\r\n", self.connection.head)

    async def test_a_pod_that_does_not_read_holds_up_the_sender(self) -> None:
        self.pod.reads = False
        sock = await self.begin(f"Content-Length: {LARGE}")
        sent = [0]

        def send() -> None:
            sock.settimeout(1.0)
            try:
                for _ in range(LARGE // len(PIECE)):
                    sock.sendall(PIECE)
                    sent[0] += len(PIECE)
            except TimeoutError:
                pass

        await deferToThread(send)
        # what the sockets' buffers hold, here and at the pod, and nothing of it in this process
        self.assertLess(sent[0], 40 * MEGA)
        self.assertLess(self.api.runner.pending.size, MEGA)
        sock.close()
        self.connection.transport.resumeProducing()  # type: ignore[union-attr]
        await self.until(lambda: self.connection.lost)
        await self.until(lambda: not self.connections.open)
        self.assertLess(self.connection.size, LARGE)

    async def test_a_pod_that_never_reads_is_given_up(self) -> None:
        self.patch(exchange, "PATIENCE", 0.3)
        self.pod.reads = False
        sock = await self.begin(f"Content-Length: {LARGE}")
        answer = await send_and_read(sock, PIECE, LARGE // len(PIECE))
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer)
        self.assertIn(b"does not read the request", answer)

    async def test_a_pod_that_is_not_there(self) -> None:
        """The client hears of it, and no failure is left for the log."""
        begun: list[Exchange] = []

        def begin(*arguments: Any, **named: Any) -> Exchange:
            begun.append(Exchange(*arguments, **named))
            return begun[-1]

        self.patch(exchange, "Exchange", begin)
        await self.backend.stopListening()
        sock = await self.begin(f"Content-Length: {4 * MEGA}")
        answer = await send_and_read(sock, PIECE, 4 * MEGA // len(PIECE))
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer)
        sock.close()
        await self.until(lambda: not self.connections.open)
        self.assertNotIsInstance(begun[0].answered.result, Failure)

    async def test_an_answer_before_the_end_of_the_body(self) -> None:
        self.pod.early = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE)
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 401 Unauthorized"), answer)
        self.assertIn(b"Connection: close", answer)
        self.assertTrue(answer.endswith(b"\r\n2\r\nno\r\n0\r\n\r\n"), answer)
        await self.until(lambda: self.connection.lost)

    async def test_an_answer_that_goes_on_beside_the_body(self) -> None:
        self.pod.early = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst"
        sock = await self.begin("Transfer-Encoding: chunked")
        sock.sendall(b"2\r\nab\r\n")
        seen = await until_seen(sock, b"first")
        self.assertTrue(seen.startswith(b"HTTP/1.1 200"))
        sock.sendall(b"2\r\ncd\r\n0\r\n\r\n")
        await self.until(lambda: self.connection.size == 4)
        self.connection.transport.write(b"later")  # type: ignore[union-attr]
        self.assertIn(b"later", await rest(sock))

    async def test_a_client_that_goes(self) -> None:
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE * 4)
        await self.until(lambda: self.pod.connections and self.connection.size == 4 * len(PIECE))
        sock.close()
        await self.until(lambda: self.connection.lost)
        self.assertFalse(self.connection.answered)
        self.assertEqual(self.api.runner.pending.size, 0)

    async def test_a_body_that_is_malformed(self) -> None:
        sock = await self.begin("Transfer-Encoding: chunked")
        sock.sendall(b"2\r\nab\r\n")
        await self.until(lambda: self.pod.connections and self.connection.size == 2)
        sock.sendall(b"no chunk\r\n")
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer)
        self.assertIn(b"malformed", answer)
        await self.until(lambda: self.connection.lost)

    async def test_a_pod_that_goes(self) -> None:
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE)
        await self.until(lambda: self.pod.connections and self.connection.size)
        self.connection.transport.loseConnection()  # type: ignore[union-attr]
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer)
        self.assertEqual(len(self.pod.connections), 1)  # nothing is sent twice

    async def test_the_deadline_ends_it_on_both_sides(self) -> None:
        def within_a_minute(ctx: Any) -> None:
            ctx.deadline = self.clock.seconds() + 60

        chain = self.api.runner.chain
        self.api.runner.chain = FilterChain([*chain.filters, within_a_minute], chain.handler)
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE)
        await self.until(lambda: self.pod.connections and self.connection.size == len(PIECE))
        await self.pass_time(61)
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 504"), answer)
        await self.until(lambda: self.connection.lost)

    async def test_nobody_is_asked_without_a_pod(self) -> None:
        self.path = f"{PODS}/none/proxy/upload"
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE * 2)
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 404"), answer)
        self.assertEqual(self.pod.connections, [])

    async def test_bodies_of_other_requests_are_not_begun(self) -> None:
        self.path = f"{PODS}/p/status"
        sock = await self.begin(f"Content-Length: {4 * MEGA}", "PUT")
        await self.send(sock, 4 * MEGA)
        self.assertTrue((await until_seen(sock, b"limit is")).startswith(b"HTTP/1.1 413"))

    # -- HTTP/2

    def send2(self, client: Client2, stream: int, size: int) -> Any:
        """As fast as the windows allow; ends early when the stream does."""

        def run() -> None:
            sent = 0
            while sent < size:
                window = client.state.local_flow_control_window(stream)
                if not window:
                    client.events += client.state.receive_data(client.sock.recv(1 << 16))
                    if any(isinstance(event, h2.events.StreamReset) for event in client.events):
                        return
                    continue
                at = sent % len(PIECE)
                data = PIECE[at : at + min(window, 16384)]
                client.state.send_data(stream, data)
                sent += len(data)
                client.flush()
            client.state.end_stream(stream)
            client.flush()

        return deferToThread(run)

    async def test_a_body_over_http2(self) -> None:
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        await self.send2(client, stream, LARGE)
        event = await client.until(h2.events.ResponseReceived, stream)
        self.assertEqual(dict(event.headers)[b":status"], b"200")
        await client.until(h2.events.StreamEnded, stream)
        self.assert_whole(LARGE)
        self.assertEqual(self.api.runner.pending.size, 0)

    async def test_a_pod_that_does_not_read_over_http2(self) -> None:
        """The stream's window closes; other streams of the connection go on."""
        self.pod.reads = False
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        sent = [0]

        def send() -> None:
            client.sock.settimeout(1.0)
            try:
                while sent[0] < LARGE:
                    window = client.state.local_flow_control_window(stream)
                    if not window:
                        client.events += client.state.receive_data(client.sock.recv(1 << 16))
                        continue
                    size = min(window, 16384)
                    client.state.send_data(stream, PIECE[:size])
                    client.flush()
                    sent[0] += size
            except (TimeoutError, ssl.SSLWantReadError):
                client.sock.settimeout(MAX_WAIT)

        await deferToThread(send)
        self.assertLess(sent[0], 40 * MEGA)
        self.assertLess(self.api.runner.pending.size, MEGA)
        other = client.begin("GET", PODS)
        event = await client.until(h2.events.ResponseReceived, other)
        self.assertEqual(dict(event.headers)[b":status"], b"200")
        client.state.reset_stream(stream)
        client.flush()
        self.connection.transport.resumeProducing()  # type: ignore[union-attr]
        await self.until(lambda: self.connection.lost)
        self.assertEqual(self.api.runner.pending.size, 0)

    async def test_an_answer_before_the_end_over_http2(self) -> None:
        self.pod.early = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        client.state.send_data(stream, PIECE[:16384])
        client.flush()
        event = await client.until(h2.events.ResponseReceived, stream)
        self.assertEqual(dict(event.headers)[b":status"], b"401")
        await client.until(h2.events.StreamEnded, stream)
        await self.until(lambda: self.connection.lost)
        other = client.begin("GET", PODS)
        event = await client.until(h2.events.ResponseReceived, other)
        self.assertEqual(dict(event.headers)[b":status"], b"200")

    async def test_a_stream_that_is_reset(self) -> None:
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        client.state.send_data(stream, PIECE[:16384])
        client.flush()
        await self.until(lambda: self.pod.connections and self.connection.size == 16384)
        client.state.reset_stream(stream)
        client.flush()
        await self.until(lambda: self.connection.lost)
        self.assertFalse(self.connection.answered)

    async def test_a_small_body_takes_the_usual_way(self) -> None:
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        client.state.send_data(stream, b"abc", end_stream=True)
        client.flush()
        event = await client.until(h2.events.ResponseReceived, stream)
        self.assertEqual(dict(event.headers)[b":status"], b"200")
        self.assertIn(b"Content-Length: 3\r\n", self.connection.head)
