"""Outgoing TLS on the socket itself: who is spoken to, how much goes through, how connections end."""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL
from service_identity import VerificationError
from twisted.internet import reactor, ssl
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from kapi.wire.agent import Agent
from kapi.wire.connection import has_unread_data
from kapi.wire.dial import Dialer
from kapi.wire.tls.writing import RECORD_BYTES
from tests.admission.certificates import make_certificate
from tests.waiting import accepted_ended, eventually
from tests.wire.agents import agent_of, asked

CERTIFICATE, KEY = make_certificate("127.0.0.1")
OTHER, _ = make_certificate("127.0.0.1")
LIMIT = 3_000_000  # bytes


class Mirror(Protocol):
    """Answers with the body it was sent; the factory counts every byte."""

    factory: Any
    buffer = b""

    def dataReceived(self, data: bytes) -> None:
        self.factory.received += len(data)
        self.buffer += data
        head, gap, body = self.buffer.partition(b"\r\n\r\n")
        if gap and len(body) == int(head.rpartition(b"Content-Length: ")[2]):
            self.buffer = b""
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)  # type: ignore[union-attr]


class Silent(Protocol):
    """No TLS: closes as soon as it is spoken to."""

    def dataReceived(self, data: bytes) -> None:
        self.transport.loseConnection()  # type: ignore[union-attr]


class Slow(Protocol):
    """Stops reading with each piece of data."""

    def connectionMade(self) -> None:
        self.received = b""
        self.stopped = False
        self.when_stopped: list[bytes] = []
        self.transport.write(b"?")  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        if self.stopped:
            self.when_stopped.append(data)
        self.received += data
        self.stopped = True
        self.transport.stopReading()  # type: ignore[union-attr]

    def read_on(self) -> None:
        self.stopped = False
        self.transport.startReading()  # type: ignore[union-attr]


class Records(Protocol):
    """Sends a small record and, when asked for more, several large ones."""

    more = b"".join(bytes([number]) * RECORD_BYTES for number in range(4))

    def dataReceived(self, data: bytes) -> None:
        self.transport.write(b"first")  # type: ignore[union-attr]
        self.transport.write(self.more)  # type: ignore[union-attr]


class TLSClientCase(TestCase):
    def setUp(self) -> None:
        self.server: Any = Factory.forProtocol(Mirror)
        self.server.received = 0
        pair = ssl.PrivateCertificate.loadPEM(KEY + CERTIFICATE)
        self.port = reactor.listenSSL(0, self.server, pair.options(), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.agents: list[Agent] = []

    async def tearDown(self) -> None:
        for agent in self.agents:
            await agent.pool.close()
        await self.port.stopListening()
        await accepted_ended()
        for warning in self.flushWarnings():
            self.assertIn("pyOpenSSL", str(warning["message"]))

    def ask(self, body: bytes, name: str = "127.0.0.1", root: bytes = CERTIFICATE, port: int = 0) -> Deferred[Any]:
        trust = ssl.trustRootFromCertificates([ssl.Certificate.loadPEM(root)])
        options = ssl.optionsForClientTLS(name, trustRoot=trust)
        agent = agent_of(port or self.port.getHost().port, options)
        self.agents.append(agent)
        return asked(agent, b"POST", b"https://127.0.0.1/", body, LIMIT)

    async def failure(self, **how: Any) -> BaseException:
        try:
            await self.ask(b"secret", **how)
        except BaseException as problem:
            return problem
        raise AssertionError("the server was believed")

    async def test_more_than_a_socket_takes_at_once_goes_both_ways(self) -> None:
        body = bytes(range(256)) * 10_000
        self.assertEqual((await self.ask(body)).body, body)

    async def test_nothing_comes_while_the_protocol_has_stopped_reading(self) -> None:
        self.server.protocol = Records
        trust = ssl.trustRootFromCertificates([ssl.Certificate.loadPEM(CERTIFICATE)])
        options = ssl.optionsForClientTLS("127.0.0.1", trustRoot=trust)
        endpoint = Dialer(reactor).endpoint("127.0.0.1", self.port.getHost().port, options)  # type: ignore[arg-type]
        slow: Any = await endpoint.connect(Factory.forProtocol(Slow))
        expected = b"first" + Records.more
        while len(slow.received) < len(expected):
            before = len(slow.received)
            await eventually(lambda before=before: len(slow.received) > before)
            if len(slow.received) < len(expected):
                await eventually(lambda: has_unread_data(slow.transport))
            slow.read_on()
        self.assertEqual((slow.received, slow.when_stopped), (expected, []))
        slow.transport.abortConnection()

    async def test_a_server_of_another_name_is_sent_nothing(self) -> None:
        for name in ("127.0.0.2", "other.example"):
            self.assertIsInstance(await self.failure(name=name), VerificationError)
        self.assertEqual(self.server.received, 0)

    async def test_a_server_of_another_authority_is_sent_nothing(self) -> None:
        problem = await self.failure(root=OTHER)
        self.assertIsInstance(problem, SSL.Error)
        self.assertIn("certificate verify failed", str(problem))
        self.assertEqual(self.server.received, 0)

    async def test_a_server_that_ends_the_handshake(self) -> None:
        plain = reactor.listenTCP(0, Factory.forProtocol(Silent), interface="127.0.0.1")  # type: ignore[attr-defined]
        try:
            self.assertIsInstance(await self.failure(port=plain.getHost().port), ConnectionLost)
        finally:
            await plain.stopListening()

    async def test_cancelling_in_the_handshake_ends_the_connection(self) -> None:
        plain = reactor.listenTCP(0, Factory.forProtocol(Protocol), interface="127.0.0.1")  # type: ignore[attr-defined]
        try:
            waiting = self.ask(b"x", port=plain.getHost().port)
            await deferLater(reactor, 0.05)
            waiting.addErrback(lambda why: None)
            waiting.cancel()
            await self.agents[0].pool.close()  # waits for what is open
        finally:
            await plain.stopListening()
