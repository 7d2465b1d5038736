"""Outgoing connections: a name is resolved once, its addresses are checked, and exactly those addresses are dialled.

If the name were resolved again for the connection, it might lead elsewhere by then (CVE-2020-8562).  Webhooks, identity
providers and aggregated servers may have any address; the target of a proxy subresource, which a user names, must not be this
machine or its link.
Upstream: apimachinery ``util/proxy/dial.go`` and the ``proxyutil`` of kubernetes' ``pkg/proxy/util``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any

from twisted.internet.address import IPv4Address as IPv4Endpoint
from twisted.internet.address import IPv6Address as IPv6Endpoint
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IResolutionReceiver,
    IStreamClientEndpoint,
)
from zope.interface import directlyProvides, implementer, providedBy

from kapi.process.reactor import Reactor
from kapi.request.departure import keep_alive, socket_of
from kapi.wire.network_errors import LookupTimedOut, is_domain_name

if TYPE_CHECKING:
    from kapi.wire.egress import EgressProxy
    from kapi.wire.tls.faults import CertificateFaults

CONNECT_TIMEOUT = 10.0  # seconds
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

    def __init__(self, reactor: Reactor, timeout: float = CONNECT_TIMEOUT, proxy: EgressProxy | None = None) -> None:
        self.reactor = reactor
        self._timeout = timeout
        self._proxy = proxy

    async def resolve(self, host: str) -> list[str]:
        """The addresses of a host, at least one.  Raises DNSLookupError."""
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        if not is_domain_name(host) or host == ".":
            raise DNSLookupError(f"no name of a host: {host}")
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
        tls: IOpenSSLClientConnectionCreator | None = None,
        *,
        faults: CertificateFaults | None = None,
        protocols: Sequence[bytes] = (),
        proxied: bool = False,
        addresses: Sequence[str] = (),
    ) -> IStreamClientEndpoint:
        """The endpoint of a host, over TLS with the options ``tls``; ``faults`` counts deprecated certificates.

        ``protocols``: the server may choose one of these in the handshake (ALPN).
        ``proxied``: the addresses are checked with ``is_proxyable``.  ``addresses``: those of the host, when they were resolved
        and checked already.
        """
        if self._proxy is not None:
            if tls is not None:
                from kapi.wire.tls.client import in_memory  # imported only when it is used

                tls = in_memory(tls, faults, protocols)
            behind = _HostBehindProxy(self, self.reactor, host, port, self._timeout, proxied, addresses)
            behind.proxy, behind.tls = self._proxy, tls
            return behind
        reactor = self.reactor
        if tls is not None:
            from kapi.wire.tls.client import tls_reactor  # commands without TLS start faster

            reactor = tls_reactor(reactor, tls, faults, protocols)
        return _Host(self, reactor, host, port, self._timeout, proxied, addresses)


@implementer(IStreamClientEndpoint)
class _Host:
    """A host that is reached directly."""

    def __init__(
        self,
        dialer: Dialer,
        reactor: Reactor,
        host: str,
        port: int,
        timeout: float,
        proxied: bool,
        addresses: Sequence[str],
    ) -> None:
        self.dialer, self.reactor, self.host, self.port = dialer, reactor, host, port
        self.timeout, self.proxied, self.addresses = timeout, proxied, addresses

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        connected = Deferred.fromCoroutine(self._connect(protocolFactory))
        return connected.addCallback(_kept_alive)

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        addresses = self.addresses
        if not addresses:
            addresses = await (self.dialer.proxyable if self.proxied else self.dialer.resolve)(self.host)
        if len(addresses) == 1:  # without a race of several, for which the name would be decoded
            endpoint = TCP6ClientEndpoint if ":" in addresses[0] else TCP4ClientEndpoint
            alone: IStreamClientEndpoint = endpoint(self.reactor, addresses[0], self.port, timeout=self.timeout)
            return await alone.connect(factory)
        known: Any = _Known(self.reactor, addresses)
        return await HostnameEndpoint(known, self.host.encode(), self.port, timeout=self.timeout).connect(factory)


class _HostBehindProxy(_Host):
    """A host behind a proxy, which looks up its name; when the addresses are checked, the name is looked up here instead."""

    proxy: EgressProxy
    tls: IOpenSSLClientConnectionCreator | None

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        addresses, host = self.addresses, self.host
        if not addresses and self.proxied:
            addresses = await self.dialer.proxyable(host)
        if addresses:
            host = addresses[0]
        target = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        return await self.proxy.connect(self.reactor, target, factory, self.tls, self.timeout)


def _kept_alive(protocol: IProtocol) -> IProtocol:
    """Sets TCP keep-alive, so that a server that vanishes is noticed even by a tunnel or a watch without traffic."""
    sock = socket_of(protocol)
    if sock is not None:
        keep_alive(sock, *KEEP_ALIVE)
    return protocol


@implementer(IResolutionReceiver)
class _Receiver:
    """Collects the addresses that a resolver finds."""

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


@implementer(IHostnameResolver)
class _Known:
    """A reactor for an endpoint, and the resolver of that reactor, which returns the known addresses for any name."""

    def __init__(self, reactor: Reactor, addresses: Sequence[str]) -> None:
        self._reactor = reactor
        self._addresses = addresses
        self.nameResolver = self
        directlyProvides(self, providedBy(reactor), IHostnameResolver)

    def resolveHostName(
        self, resolutionReceiver: Any, hostName: str, portNumber: int = 0, *_: object, **__: object
    ) -> Any:
        resolutionReceiver.resolutionBegan(self)
        for text in self._addresses:
            kind = IPv6Endpoint if ":" in text else IPv4Endpoint
            resolutionReceiver.addressResolved(kind("TCP", text, portNumber))
        resolutionReceiver.resolutionComplete()
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)
