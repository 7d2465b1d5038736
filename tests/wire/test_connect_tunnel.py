"""What a proxy is asked, and what it is not."""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL
from service_identity import VerificationError
from twisted.internet import ssl
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.wire.tunnel import ProxyError, through, through_socks


class Proxy:
    """An endpoint that keeps what it is told."""

    def __init__(self) -> None:
        self.transport = StringTransport()

    def connect(self, factory: Any) -> Deferred[Any]:
        self.protocol = protocol = factory.buildProtocol(None)
        protocol.makeConnection(self.transport)
        made: Deferred[Any] = Deferred()
        made.callback(protocol)
        return made


class TunnelTests(SynchronousTestCase):
    def ask(self, target: str) -> tuple[Proxy, Deferred[Any]]:
        proxy: Any = Proxy()
        return proxy, Deferred.fromCoroutine(through(proxy, target, Factory.forProtocol(Protocol), host="127.0.0.1"))

    def test_the_target_is_named(self) -> None:
        for target in ("node.example.com:10250", "[fd00::1]:443"):
            proxy, _ = self.ask(target)
            wanted = f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            self.assertEqual(proxy.transport.value(), wanted.encode())

    def test_a_socks_proxy_may_answer_in_any_pieces(self) -> None:
        """Even before it is asked."""
        said = b"\5\2" + b"\1\0" + b"\5\0\0\3\4name\0\1"
        request = b"\5\1\0\1\x0a\0\0\1\1\xbb"
        for size in (1, 2, 3, 5, len(said)):
            proxy: Any = Proxy()
            made = Deferred.fromCoroutine(
                through_socks(proxy, "10.0.0.1", 443, Factory.forProtocol(Protocol), username="me", password="pass")
            )
            for at in range(0, len(said), size):
                self.assertNoResult(made)
                proxy.protocol.dataReceived(said[at : at + size])
            self.assertIsInstance(self.successResultOf(made), Protocol)
            self.assertEqual(proxy.transport.value(), b"\5\2\0\2" + b"\1\2me\4pass" + request)

    def test_what_a_socks_proxy_may_not_say(self) -> None:
        for said, why in (
            (b"\5\xff", "no acceptable authentication methods"),
            (b"\4\0", "no acceptable authentication methods"),
            (b"\5\2", "no acceptable authentication methods"),  # nobody has a password
            (b"\5\0\5\5", ""),
            (b"\5\0\5\5\0\1\0", "connection refused"),
            (b"\5\0\5\x63\0\1\0", "unknown code: 99"),
            (b"\5\0\5\0\0\1" + bytes(6) + b"early", "unexpected 5 bytes of buffered data from SOCKS proxy"),
        ):
            proxy: Any = Proxy()
            made = Deferred.fromCoroutine(through_socks(proxy, "10.0.0.1", 443, Factory.forProtocol(Protocol)))
            proxy.protocol.dataReceived(said)
            if why:
                self.assertIn(why, str(self.failureResultOf(made, ProxyError).value))
            else:
                self.assertNoResult(made)

    def test_tls_of_who_asked_is_left_to_him(self) -> None:
        """An endpoint that adds TLS brings its own factory, and takes what that has made."""
        options = ssl.optionsForClientTLS("node.example.com")
        proxy: Any = Proxy()
        tls = TLSMemoryBIOFactory(options, True, Factory.forProtocol(Protocol))
        asked = Deferred.fromCoroutine(through(proxy, "node.example.com:443", tls))
        proxy.protocol.dataReceived(b"HTTP/1.1 200 OK\r\n\r\n")
        self.assertIsInstance(self.successResultOf(asked), TLSMemoryBIOProtocol)

    def test_a_proxy_that_is_not_trusted_is_told_from_one_that_goes_away(self) -> None:
        for reason, text in (
            (ConnectionDone(), "the proxy has closed the connection"),
            (ConnectionLost(), "the proxy has closed the connection"),
            (VerificationError([]), "tls: failed to verify certificate: x509: certificate is not valid for the proxy"),
            (SSL.Error([("SSL routines", "", "certificate verify failed")]), "certificate signed by unknown authority"),
        ):
            proxy, asked = self.ask("node.example.com:10250")
            proxy.protocol.connectionLost(Failure(reason))
            self.assertIn(text, str(self.failureResultOf(asked, ProxyError).value))

    def test_a_target_with_blanks_or_line_breaks_is_none(self) -> None:
        """A node says itself what its addresses are."""
        for host in (
            "10.0.0.1:22 HTTP/1.1\r\nX-User: admin\r\n\r\n",
            "10.0.0.1\n",
            "a b",
            "a\tb",
            "a\x00",
            "a\x7f",
            "",
        ):
            proxy, asked = self.ask(f"{host}:10250" if host else "")
            self.failureResultOf(asked, ProxyError)
            self.assertEqual(proxy.transport.value(), b"", host)
