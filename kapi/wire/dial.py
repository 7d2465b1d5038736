"""Outgoing connections: a name is resolved once, its addresses are checked, and exactly those addresses are dialled.

If the name were resolved again for the connection, it might lead elsewhere by then (CVE-2020-8562).  Webhooks, identity
providers and aggregated servers may have any address; the target of a proxy subresource, which a user names, must not be this
machine or its link.
Upstream: apimachinery ``util/proxy/dial.go`` and the ``proxyutil`` of kubernetes' ``pkg/proxy/util``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from twisted.internet.address import IPv4Address as IPv4Endpoint
from twisted.internet.address import IPv6Address as IPv6Endpoint
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.error import DNSLookupError, NoProtocol
from twisted.internet.interfaces import (
    IAddress,
    IConnector,
    IDelayedCall,
    IHostResolution,
    IProtocol,
    IProtocolFactory,
    IResolutionReceiver,
    IStreamClientEndpoint,
    ITransport,
)
from twisted.internet.protocol import ClientFactory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.process.reactor import Reactor
from kapi.request.departure import keep_alive, socket_of
from kapi.wire.egress import HTTPConnect
from kapi.wire.network_errors import LookupTimedOut

if TYPE_CHECKING:
    from kapi.wire.tls.faults import CertificateFaults
    from kapi.wire.tls.trust import ClientTLS

CONNECT_TIMEOUT = 10.0  # seconds
ATTEMPT_DELAY = 0.3  # seconds before the next address of a host is tried beside the one before
#: as ``listening.KEEP_ALIVE``; upstream's dialers wait 30 s, and otherwise as Go does by default
KEEP_ALIVE = (30, 15, 9)
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_BROADCAST = IPv4Address("255.255.255.255")
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))  # the last 32 bits are an IPv4 address


class AddressNotAllowed(Exception):
    """An address that is no target for a proxy subresource."""

    def __init__(self) -> None:
        super().__init__("address not allowed")


def is_proxyable(text: str) -> bool:
    """Whether an address may be that of a pod or a node.

    Loopback, link-local, multicast and unspecified addresses may not, also when an IPv6 address embeds them, and neither may
    addresses with a scope.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return _is_unicast(address) and address not in _THIS_NETWORK and address != _BROADCAST
    return address.scope_id is None and _is_unicast(address) and all(map(is_proxyable, _embedded(address)))


def _is_unicast(address: IPv4Address | IPv6Address) -> bool:
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def _embedded(address: IPv6Address) -> Iterable[str]:
    """The IPv4 addresses to which packets for an IPv6 address may be sent on."""
    if address.ipv4_mapped is not None:
        yield str(address.ipv4_mapped)
    if address.sixtofour is not None:
        yield str(address.sixtofour)
    if address.teredo is not None:
        yield str(address.teredo[1])
    if any(address in network for network in _TRANSLATED):
        yield str(IPv4Address(int(address) & 0xFFFFFFFF))


class Dialer:
    """Makes connections to hosts.  ``timeout``: seconds for looking up a host, and as many for connecting to it.

    ``proxy`` is that of an egress selection; None: hosts are reached directly.
    """

    def __init__(self, reactor: Reactor, timeout: float = CONNECT_TIMEOUT, proxy: HTTPConnect | None = None) -> None:
        self.reactor = reactor
        self._timeout = timeout
        self._proxy = proxy

    async def resolve(self, host: str) -> list[str]:
        """The addresses of a host, at least one.  Raises DNSLookupError."""
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        receiver = _Receiver()
        self.reactor.nameResolver.resolveHostName(receiver, host)
        receiver.done.addTimeout(self._timeout, self.reactor)
        try:
            found = await receiver.done
        except TimeoutError:
            raise LookupTimedOut(f"hostname lookup timed out: {host}") from None
        finally:
            receiver.leave()
        if not found:
            raise DNSLookupError(f"no results for hostname lookup: {host}")
        return found

    async def proxyable(self, host: str) -> list[str]:
        """The addresses of a host, all of them allowed for a proxy subresource.  Raises DNSLookupError, AddressNotAllowed."""
        found = await self.resolve(host)
        if not all(map(is_proxyable, found)):
            raise AddressNotAllowed
        return found

    def endpoint(
        self,
        host: str,
        port: int,
        tls: ClientTLS | None = None,
        *,
        faults: CertificateFaults | None = None,
        proxied: bool = False,
        addresses: Sequence[str] = (),
    ) -> IStreamClientEndpoint:
        """The endpoint of a host, over TLS with the options ``tls``; ``faults`` counts deprecated certificates.

        ``proxied``: the addresses are checked with ``is_proxyable``.  ``addresses``: those of the host, when they were resolved
        and checked already.
        """
        if self._proxy is not None:
            if tls is not None and faults is not None:
                from kapi.wire.tls.client import counted  # imported only when it is used

                tls = counted(tls, faults)
            return _HostBehindProxy(self, self.reactor, host, port, self._timeout, proxied, addresses, self._proxy, tls)
        reactor = self.reactor
        if tls is not None:
            from kapi.wire.tls.client import tls_reactor  # commands without TLS start faster

            reactor = tls_reactor(reactor, tls, faults)
        return _Host(self, reactor, host, port, self._timeout, proxied, addresses)


@implementer(IStreamClientEndpoint)
@dataclass(eq=False)
class _Host:
    """A host that is reached directly."""

    dialer: Dialer
    reactor: Reactor
    host: str
    port: int
    timeout: float
    proxied: bool
    addresses: Sequence[str]

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        connected = Deferred.fromCoroutine(self._connect(protocolFactory))
        return connected.addCallback(_kept_alive)

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        addresses = self.addresses
        if not addresses:
            addresses = await (self.dialer.proxyable if self.proxied else self.dialer.resolve)(self.host)
        return await _Race(self, addresses, factory).won


class _Race:
    """The addresses of a host are dialled one after the other, each while the earlier ones may still answer (RFC 8305).

    Twisted's HostnameEndpoint does so, too; its module imports what a client command does not need.
    """

    def __init__(self, host: _Host, addresses: Sequence[str], factory: IProtocolFactory) -> None:
        self._host, self._factory = host, factory
        self._left = list(addresses)
        self._attempts: set[_Attempt] = set()
        self._next: IDelayedCall | None = None
        self.won: Deferred[IProtocol] = Deferred(lambda _: self._end())
        self._dial()

    def _dial(self) -> None:
        self._next = None
        attempt = _Attempt(self, self._factory)
        self._attempts.add(attempt)
        address = self._left.pop(0)
        if self._left:
            self._next = self._host.reactor.callLater(ATTEMPT_DELAY, self._dial)
        attempt.connector = self._host.reactor.connectTCP(address, self._host.port, attempt, self._host.timeout)

    def connected(self, attempt: _Attempt, protocol: IProtocol) -> None:
        self._attempts.discard(attempt)
        self._end()
        self.won.callback(protocol)

    def failed(self, attempt: _Attempt, reason: Failure) -> None:
        if attempt not in self._attempts:
            return  # it was left
        self._attempts.discard(attempt)
        if self._next is not None:
            self._next.cancel()
        if self._left:
            self._dial()
        elif not self._attempts:
            self.won.errback(reason)

    def _end(self) -> None:
        if self._next is not None:
            self._next.cancel()
        left, self._attempts = self._attempts, set()
        for attempt in left:
            attempt.connector.stopConnecting()


class _Attempt(ClientFactory):
    """One connection of a race."""

    noisy = False
    connector: IConnector

    def __init__(self, race: _Race, factory: IProtocolFactory) -> None:
        self._race, self._factory = race, factory

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        try:
            made = self._factory.buildProtocol(addr)  # type: ignore[arg-type]
            if made is None:
                raise NoProtocol
        except Exception:
            self._race.failed(self, Failure())
            return None
        return _Beginning(self._race, self, made)

    def startFactory(self) -> None:
        self._factory.doStart()

    def stopFactory(self) -> None:
        self._factory.doStop()

    def clientConnectionFailed(self, connector: IConnector, reason: Failure) -> None:
        self._race.failed(self, reason)


class _Beginning(Protocol):
    """Has a connection until it is made: it belongs to the protocol of the caller then."""

    def __init__(self, race: _Race, attempt: _Attempt, made: IProtocol) -> None:
        self._race, self._attempt, self._made = race, attempt, made

    def makeConnection(self, transport: ITransport) -> None:
        transport.protocol = self._made  # type: ignore[attr-defined]  # of Twisted's transports
        self._made.makeConnection(transport)
        self._race.connected(self._attempt, self._made)


@dataclass(eq=False)
class _HostBehindProxy(_Host):
    """A host behind a proxy, which looks up its name; when the addresses are checked, the name is looked up here instead."""

    proxy: HTTPConnect
    tls: ClientTLS | None

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        addresses, host = self.addresses, self.host
        if not addresses and self.proxied:
            addresses = await self.dialer.proxyable(host)
        if addresses:
            host = addresses[0]
        target = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        return await self.proxy.connect(self.reactor, target, factory, self.tls, self.timeout)


def _kept_alive(protocol: IProtocol) -> IProtocol:
    """A server that vanishes is noticed, also by a tunnel or a watch in which nothing moves."""
    sock = socket_of(protocol)
    if sock is not None:
        keep_alive(sock, *KEEP_ALIVE)
    return protocol


@implementer(IResolutionReceiver)
class _Receiver:
    """Collects what a resolver finds."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._complete = False
        self._resolution: IHostResolution | None = None
        self.done: Deferred[list[str]] = Deferred()

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:
        self._resolution = resolutionInProgress

    def leave(self) -> None:
        """Stops the lookup, when it is not complete."""
        resolution, self._resolution = self._resolution, None
        if resolution is not None and not self._complete:
            with suppress(NotImplementedError):  # by the reactor's own resolver
                resolution.cancel()

    def addressResolved(self, address: IAddress) -> None:
        assert isinstance(address, (IPv4Endpoint, IPv6Endpoint))
        self._found.append(address.host)

    def resolutionComplete(self) -> None:
        self._complete = True
        if not self.done.called:
            self.done.callback(self._found)
