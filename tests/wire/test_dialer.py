"""Which addresses are dialled, and that they are those that were judged."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import IHostnameResolver
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface import implementer

from kapi.wire.dial import AddressNotAllowed, Dialer, is_proxyable
from kapi.wire.network_errors import LookupTimedOut

ALLOWED = ["10.1.2.3", "8.8.8.8", "192.168.1.1", "fd00::1", "2001:db8::1", "::ffff:10.1.2.3", "64:ff9b::a01:203"]
REFUSED = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "ff02::1", "fe80::1%eth0", "::1%1", "fd00::1%eth0",
    "::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0",
    "::127.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "64:ff9b::7f00:1", "64:ff9b::169.254.169.254",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "", "name", "127.1", "0x7f000001", "2130706433", "127.0.0.01", "10.1.2.3/32", " 10.1.2.3", "١٠.1.2.3", "10.1.2.3\n",
]  # fmt: skip


@pytest.mark.parametrize("text", ALLOWED)
def test_addresses_of_pods(text: str) -> None:
    assert is_proxyable(text)


@pytest.mark.parametrize("text", REFUSED)
def test_addresses_of_this_machine_in_every_disguise(text: str) -> None:
    assert not is_proxyable(text)


@implementer(IHostnameResolver)
class Resolver:
    """Gives the next of its answers; None is an answer that never comes."""

    def __init__(self, *answers: list[str] | None) -> None:
        self._answers: Iterator[list[str] | None] = iter(answers)
        self.asked: list[str] = []
        self.cancelled = 0

    def resolveHostName(self, receiver: Any, host: str, port: int = 0, *_: Any, **__: Any) -> Any:
        self.asked.append(host)
        receiver.resolutionBegan(self)
        answer = next(self._answers)
        if answer is None:
            return self
        for text in answer:
            receiver.addressResolved((IPv6Address if ":" in text else IPv4Address)("TCP", text, port))
        receiver.resolutionComplete()
        return self

    def cancel(self) -> None:
        self.cancelled += 1


class Dialling(SynchronousTestCase):
    def dial(self, resolver: Resolver, host: str = "node.example", proxy: Any = None, **how: Any) -> Deferred[Any]:
        self.reactor = MemoryReactorClock()
        self.reactor.nameResolver = resolver
        return Dialer(self.reactor, 5, proxy).endpoint(host, 80, **how).connect(Factory.forProtocol(Protocol))

    def dialled(self) -> list[str]:
        return [client[0] for client in self.reactor.tcpClients]

    def test_a_name_is_resolved_once_and_its_address_dialled(self) -> None:
        """The second answer, which a name server under somebody's control may give, is never asked for."""
        resolver = Resolver(["10.0.0.1"], ["127.0.0.1"])
        connecting = self.dial(resolver, proxied=True)
        self.assertEqual((resolver.asked, self.dialled()), (["node.example"], ["10.0.0.1"]))
        connecting.cancel()
        self.failureResultOf(connecting)

    def test_one_bad_address_refuses_the_name(self) -> None:
        connecting = self.dial(Resolver(["10.0.0.1", "::ffff:127.0.0.1"]), proxied=True)
        self.assertEqual(str(self.failureResultOf(connecting, AddressNotAllowed).value), "address not allowed")
        self.assertEqual(self.dialled(), [])

    def test_addresses_are_judged_however_they_are_given(self) -> None:
        connecting = self.dial(Resolver(), "127.0.0.1", proxied=True)
        self.failureResultOf(connecting, AddressNotAllowed)
        self.assertEqual(self.dialled(), [])

    def test_addresses_that_were_judged_are_dialled_without_a_name_server(self) -> None:
        connecting = self.dial(Resolver(), addresses=["10.0.0.9"], proxied=True)
        self.assertEqual(self.dialled(), ["10.0.0.9"])
        connecting.cancel()
        self.failureResultOf(connecting)

    def test_a_proxy_gets_the_name_or_the_first_address_that_was_judged(self) -> None:
        targets: list[str] = []

        class Proxy:
            async def connect(self, reactor: Any, target: str, factory: Any, tls: Any, timeout: float) -> Any:
                targets.append(target)
                return factory.buildProtocol(None)

        for answers, how in (
            ([], {}),
            ([["10.0.0.1", "10.0.0.2"]], {"proxied": True}),
            ([["fd00::1", "10.0.0.2"]], {"proxied": True}),
            ([], {"proxied": True, "addresses": ["10.0.0.3", "10.0.0.4"]}),
            ([], {"addresses": ["10.0.0.5", "10.0.0.6"]}),
        ):
            self.successResultOf(self.dial(Resolver(*answers), proxy=Proxy(), **how))
        self.assertEqual(targets, ["node.example:80", "10.0.0.1:80", "[fd00::1]:80", "10.0.0.3:80", "10.0.0.5:80"])
        self.failureResultOf(self.dial(Resolver(["10.0.0.1", "::1"]), proxy=Proxy(), proxied=True), AddressNotAllowed)
        self.assertEqual(len(targets), 5)

    def test_webhooks_may_be_on_this_machine(self) -> None:
        connecting = self.dial(Resolver(), "127.0.0.1")
        self.assertEqual(self.dialled(), ["127.0.0.1"])
        connecting.cancel()
        self.failureResultOf(connecting)

    def test_a_name_nobody_knows(self) -> None:
        self.failureResultOf(self.dial(Resolver([])), DNSLookupError)
        for method in (Dialer.resolve, Dialer.proxyable):
            self.reactor.nameResolver = Resolver([])
            looking = Deferred.fromCoroutine(method(Dialer(self.reactor, 5), "node.example"))
            failure = self.failureResultOf(looking, DNSLookupError)
            self.assertIn("no results for hostname lookup: node.example", str(failure.value))

    def test_a_name_server_that_never_answers_is_not_waited_for_longer(self) -> None:
        resolver = Resolver(None)
        connecting = self.dial(resolver)
        self.assertNoResult(connecting)
        self.reactor.advance(6)
        self.failureResultOf(connecting, LookupTimedOut)
        self.assertEqual((self.reactor.getDelayedCalls(), resolver.cancelled), ([], 1))


class KeptAlive(TestCase):
    async def test_a_server_that_vanishes_is_noticed_as_soon_as_by_upstreams_dialers(self) -> None:
        from twisted.internet import reactor

        accepted: Deferred[Protocol] = Deferred()

        class Accepted(Protocol):
            def connectionMade(self) -> None:
                accepted.callback(self)

        port: Any = reactor.listenTCP(0, Factory.forProtocol(Accepted), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        endpoint = Dialer(reactor, 5).endpoint("127.0.0.1", port.getHost().port)  # type: ignore[arg-type]
        client: Any = await endpoint.connect(Factory.forProtocol(Protocol))
        server: Any = await accepted
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        sock = client.transport.socket
        self.assertEqual(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1)
        self.assertEqual([sock.getsockopt(socket.IPPROTO_TCP, option) for option in options], [30, 15, 9])
        ended: Deferred[None] = Deferred()
        server.connectionLost = lambda reason: ended.callback(None)
        client.transport.loseConnection()
        await ended
