"""Requests to configured servers: bounded, verified, with headers that are headers."""

from __future__ import annotations

import gzip
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, TimeoutError, inlineCallbacks
from twisted.internet.interfaces import IProtocolNegotiationFactory
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from kapi.client.endpoint_client import MAX_ANSWER, AnswerTooLarge, EndpointClient
from kapi.client.kubeconfig import Endpoint
from kapi.wire.head import BadHead
from tests.authentication.identities import Authority

CA = Authority()


class Canned(Protocol):
    """Answers the head of a request with the factory's answer, if it has one."""

    factory: Any

    def connectionMade(self) -> None:
        self.factory.connections.append(self)

    def dataReceived(self, data: bytes) -> None:
        self.factory.received += data
        answer = self.factory.answers.pop(0) if self.factory.answers else self.factory.answer
        if answer and self.transport is not None:
            self.transport.write(answer)
            self.transport.loseConnection()


@implementer(IProtocolNegotiationFactory)
class HTTP1(Factory):
    """Chooses HTTP/1.1 where a client offers more."""

    def acceptableProtocols(self) -> list[bytes]:
        return [b"http/1.1"]


class Requests(TestCase):
    def setUp(self) -> None:
        self.factory: Any = HTTP1.forProtocol(Canned)
        self.factory.answers = []
        self.factory.received, self.factory.answer, self.factory.connections = b"", b"", []
        context = CA.server_context()
        listen: Any = reactor.listenSSL  # type: ignore[attr-defined]
        self.port = listen(0, self.factory, context.options(), interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        self.url = f"https://localhost:{self.port.getHost().port}/review"

    def client(self, timeout: float = 5.0, url: str = "", ca: bytes = CA.pem, **more: Any) -> EndpointClient:
        made = EndpointClient(reactor, Endpoint(url or self.url, ca=ca, **more), timeout)
        self.addCleanup(made.close)
        return made

    def ask(self, client: EndpointClient, **more: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(client.request("POST", client.url, b"{}", **more))

    @inlineCallbacks
    def test_a_redirect_is_followed_with_its_rules(self) -> Any:
        """As in Go: only 307 and 308 take the body along; other hosts get the endpoint's credential, not a caller's."""
        elsewhere = self.url.replace("localhost", "127.0.0.1").replace("/review", "/other")
        final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        for code, lines in ((303, [b"GET /other"]), (308, [b"POST /other", b"Content-Type: a/b"])):
            for token, more in (("", {"Authorization": "Bearer mine"}), ("secret", {})):
                self.factory.received = b""
                redirect = f"HTTP/1.1 {code} X\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n".encode()
                self.factory.answers = [redirect, final]
                answer = yield self.ask(
                    self.client(token=token, ca=b"", insecure=True), headers={"Content-Type": "a/b", **more}
                )
                self.assertEqual((answer.code, answer.body), (200, b"ok"))
                second = self.factory.received[self.factory.received.index(b"/other") - 5 :]
                for line in (*lines, f"Referer: {self.url}".encode()):
                    self.assertIn(line, second)
                self.assertEqual(b"Content-Type" in second, code == 308)
                self.assertEqual(second.count(b"Authorization: Bearer "), 1 if token else 0)

    @inlineCallbacks
    def test_answers_are_bounded(self) -> Any:
        large = b"x" * (MAX_ANSWER + 1)
        packed = gzip.compress(b"x" * (MAX_ANSWER * 20), 9)
        for body, more in ((large, b""), (packed, b"Content-Encoding: gzip\r\n")):
            self.factory.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), more, body)
            yield self.assertFailure(self.ask(self.client()), AnswerTooLarge)

    @inlineCallbacks
    def test_nobody_is_waited_for_longer(self) -> Any:
        yield self.assertFailure(self.ask(self.client(0.3)), TimeoutError)
        for connection in self.factory.connections:
            connection.transport.abortConnection()

    @inlineCallbacks
    def test_a_server_is_who_its_certificate_says(self) -> Any:
        for client in (self.client(ca=Authority("other").pem), self.client(server_name="elsewhere.example")):
            failure = yield self.assertFailure(self.ask(client), Exception)
            self.assertNotIsInstance(failure, TimeoutError)
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_whoever_answers_is_trusted_where_a_kubeconfig_says_so(self) -> Any:
        self.factory.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        answer = yield self.ask(self.client(ca=b"", insecure=True, server_name="elsewhere.example"))
        self.assertEqual((answer.code, answer.body), (200, b"ok"))

    @inlineCallbacks
    def test_a_credential_with_a_line_break_is_not_sent(self) -> Any:
        yield self.assertFailure(self.ask(self.client(token="a\r\nX-Remote-User: root")), BadHead)
        yield self.assertFailure(self.ask(self.client(), headers={"X": "a\nb"}), BadHead)
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_a_kubeconfig_may_name_a_server_without_tls(self) -> Any:
        self.factory.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        plain: Any = reactor.listenTCP(0, self.factory, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(plain.stopListening)
        url = f"http://localhost:{plain.getHost().port}/review"
        client = self.client(url=url, token="secret")
        answer = yield self.ask(client)
        self.assertEqual((answer.code, answer.body), (200, b"ok"))
        self.assertIn(b"POST /review?timeout=5s HTTP/1.1\r\n", self.factory.received)
        self.assertIn(b"\r\nAuthorization: Bearer secret\r\n", self.factory.received)
        yield self.assertFailure(Deferred.fromCoroutine(client.request("POST", self.url, b"{}")), ValueError)
        self.assertRaises(ValueError, self.client, url=url.replace("http", "ftp"))

    @inlineCallbacks
    def test_nothing_leads_from_https_to_http(self) -> Any:
        asked = Deferred.fromCoroutine(self.client().request("GET", f"http://localhost:{self.port.getHost().port}/"))
        yield self.assertFailure(asked, ValueError)
        self.assertEqual(self.factory.received, b"")
