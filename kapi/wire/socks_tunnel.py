"""A connection through a SOCKS proxy (RFC 1928, RFC 1929), for kubeconfigs with a ``socks5`` URL as ``proxy-url``.

The proxy, not this process, looks up the host's name.
"""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address

from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)

from kapi.wire.tunnel import ProxyError, Tunnel, tunnelled

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
        self._step()

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
            self.refuse("socks connect: no acceptable authentication methods")

    def _authenticated(self) -> None:
        if len(self.received) < 2:
            return
        accepted = self.received[1] == 0
        self.received = self.received[2:]
        if not accepted:
            self.refuse("socks connect: username/password authentication failed")
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
            self.refuse(f"socks connect: {_REFUSALS[code] if code < len(_REFUSALS) else f'unknown code: {code}'}")
        elif len(self.received) >= length:
            self.received = self.received[length:]
            self.hand_over()
