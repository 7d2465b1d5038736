"""Connections through a proxy: first a negotiation with the proxy, then the connection belongs to another protocol.

Proxies with CONNECT (RFC 9110, 9.3.6) are those of kubeconfigs with a ``proxy-url`` and of egress selections, SOCKS proxies
(RFC 1928, RFC 1929) those of kubeconfigs alone.  A SOCKS proxy, not this process, looks up the host's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
    ITransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from kapi.request.transport import StreamTransport
from kapi.wire.network_errors import describe


class ProxyError(Exception):
    """A proxy has refused the connection, or did not answer as it should."""


class Tunnel(Protocol):
    """A subclass begins the negotiation in ``connectionMade`` and reads ``received`` in ``negotiate`` up to ``hand_over``.

    ``inner`` is the factory of the protocol that has the connection afterwards; ``kind`` is the proxy's name in messages.
    """

    transport: StreamTransport

    kind = "proxy"

    def __init__(self, inner: IProtocolFactory) -> None:
        self._factory = inner
        self.received = b""  # the proxy's data that was not parsed yet
        self.is_through = False
        self._made: Deferred[IProtocol] = Deferred()
        self._inner: IProtocol | None = None

    def negotiate(self) -> None:
        """Called when there is more data in ``received``."""
        raise NotImplementedError

    def dataReceived(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.dataReceived(data)
            return
        self.received += data
        if not self._made.called:
            self.negotiate()

    def hand_over(self) -> None:
        """The proxy has agreed."""
        if self.received:  # the target cannot have sent anything: it has received nothing
            self.fail(f"unexpected {len(self.received)} bytes of buffered data from {self.kind}")
        elif not self._made.called:
            self.give(self.transport)

    def give(self, transport: ITransport) -> None:
        """Makes the inner protocol, with its transport."""
        self.is_through = True
        self._inner = inner = self._factory.buildProtocol(transport.getPeer())
        assert inner is not None  # factories of the library always build one
        inner.makeConnection(transport)
        self._made.callback(inner)

    def fail(self, why: str) -> None:
        if not self._made.called:
            self._made.errback(ProxyError(why))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._inner is not None:
            self._inner.connectionLost(reason)
        else:
            text = describe(reason.value, "the proxy", 0) if reason.value is not None else "EOF"
            self.fail("the proxy has closed the connection" if text == "EOF" else text)

    async def made(self) -> IProtocol:
        """The protocol that the connection was handed over to.  Raises ProxyError."""
        try:
            return await self._made
        finally:
            if not self.is_through and self.transport is not None:
                self.transport.abortConnection()


async def tunnelled(
    proxy: IStreamClientEndpoint,
    tunnel: Callable[[IProtocolFactory], Tunnel],
    factory: IProtocolFactory,
    options: IOpenSSLClientConnectionCreator | None = None,
) -> IProtocol:
    """A protocol of ``factory`` at the end of a tunnel, with TLS in it when there are ``options`` for it.

    Raises ProxyError and errors of the connection.
    """
    inner: IProtocolFactory = factory if options is None else TLSMemoryBIOFactory(options, True, factory)
    asking = Factory.forProtocol(lambda: tunnel(inner))
    asking.noisy = False
    connected = await proxy.connect(asking)
    assert isinstance(connected, Tunnel)
    found = await connected.made()
    if options is None:  # the caller adds TLS itself, if it uses any
        return found
    assert isinstance(found, TLSMemoryBIOProtocol)
    return found.wrappedProtocol


MAX_REPLY = 64 * 1024  # bytes of a proxy's answer
_TARGET = re.compile(r"[^\x00-\x20\x7f]+").fullmatch


async def through(
    proxy: IStreamClientEndpoint,
    target: str,
    factory: IProtocolFactory,
    options: IOpenSSLClientConnectionCreator | None = None,
    *,
    host: str = "",
    headers: str = "",
) -> IProtocol:
    """A protocol of ``factory``, connected to ``target`` (HOST:PORT), by TLS when there are ``options`` for it.

    ``host`` is the request's Host, by default the target; ``headers`` are further lines.  Raises ProxyError and errors of
    the connection.
    """
    if not _TARGET(target):  # it may be a field of an object, whose author must not be able to add lines to the request
        raise ProxyError(f"no host and port: {target!r}")
    request = f"CONNECT {target} HTTP/1.1\r\nHost: {host or target}\r\n{headers}\r\n".encode()
    return await tunnelled(proxy, partial(_Connect, request), factory, options)


class _Connect(Tunnel):
    kind = "CONNECT proxy"

    def __init__(self, request: bytes, inner: IProtocolFactory) -> None:
        super().__init__(inner)
        self._request = request

    def connectionMade(self) -> None:
        self.transport.write(self._request)

    def negotiate(self) -> None:
        head, end, rest = self.received.partition(b"\r\n\r\n")
        if not end:
            if len(self.received) > MAX_REPLY:
                self.fail("the proxy's answer is too long")
            return
        self.received = rest
        first = head.partition(b"\r\n")[0].split(b" ", 2)
        if len(first) < 2 or first[1] != b"200":
            self.fail(f"proxyconnect tcp: {b' '.join(first[1:])[:200].decode('latin-1')}")
        else:
            self.hand_over()


_NO_PASSWORD, _PASSWORD = 0, 2
_REFUSALS = (
    "", "general SOCKS server failure", "connection not allowed by ruleset", "network unreachable", "host unreachable",
    "connection refused", "TTL expired", "command not supported", "address type not supported",
)  # fmt: skip
_ADDRESS_LENGTHS = {1: 4, 4: 16}  # in bytes, of IPv4 and IPv6; a name is preceded by its length


async def through_socks(
    proxy: IStreamClientEndpoint,
    host: str,
    port: int,
    factory: IProtocolFactory,
    options: IOpenSSLClientConnectionCreator | None = None,
    *,
    username: str = "",
    password: str = "",
) -> IProtocol:
    """A protocol of ``factory``, connected to a host, by TLS when there are ``options`` for it.

    Raises ProxyError and errors of the connection.
    """
    request = b"\5\1\0" + _address(host) + port.to_bytes(2, "big")
    who = b""
    if username:
        who = b"\1" + _sized(username, "username") + _sized(password, "password")
    return await tunnelled(proxy, partial(_Socks, request, who), factory, options)


def _address(host: str) -> bytes:
    try:
        address = ip_address(host)
    except ValueError:
        return b"\3" + _sized(host, "host")
    return (b"\1" if address.version == 4 else b"\4") + address.packed


def _sized(text: str, what: str) -> bytes:
    data = text.encode()
    if not 0 < len(data) < 256:
        raise ProxyError(f"socks connect: invalid {what}")
    return bytes((len(data),)) + data


class _Socks(Tunnel):
    kind = "SOCKS proxy"

    def __init__(self, request: bytes, who: bytes, inner: IProtocolFactory) -> None:
        super().__init__(inner)
        self._request, self._who = request, who
        self._step = self._method

    def connectionMade(self) -> None:
        methods = bytes((_NO_PASSWORD, _PASSWORD)) if self._who else bytes((_NO_PASSWORD,))
        self._write(bytes((5, len(methods))) + methods)

    def negotiate(self) -> None:
        step = None
        while step != self._step:  # a proxy may say several things at once
            step = self._step
            step()

    def _write(self, data: bytes) -> None:
        self.transport.write(data)

    def _method(self) -> None:
        if len(self.received) < 2:
            return
        version, method = self.received[:2]
        self.received = self.received[2:]
        if version == 5 and method == _NO_PASSWORD:
            self._step = self._reply
            self._write(self._request)
        elif version == 5 and method == _PASSWORD and self._who:
            self._step = self._authenticated
            self._write(self._who)
        else:
            self.fail("socks connect: no acceptable authentication methods")

    def _authenticated(self) -> None:
        if len(self.received) < 2:
            return
        accepted = self.received[1] == 0
        self.received = self.received[2:]
        if not accepted:
            self.fail("socks connect: username/password authentication failed")
            return
        self._step = self._reply
        self._write(self._request)

    def _reply(self) -> None:
        """Version, code, a reserved byte, kind of address, address, port; the address is not needed."""
        if len(self.received) < 5:
            return
        code, kind = self.received[1], self.received[3]
        length = _ADDRESS_LENGTHS.get(kind, 1 + self.received[4]) + 6
        if code:
            self.fail(f"socks connect: {_REFUSALS[code] if code < len(_REFUSALS) else f'unknown code: {code}'}")
        elif len(self.received) >= length:
            self.received = self.received[length:]
            self.hand_over()
