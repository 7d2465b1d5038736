"""A connection through a proxy's CONNECT (RFC 9110, 9.3.6): for kubeconfigs with a ``proxy-url``, and for egress selections."""

from __future__ import annotations

import re
from functools import partial

from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)

from kapi.wire.tunnel import ProxyError as ProxyError
from kapi.wire.tunnel import Tunnel, tunnelled

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
    if not _TARGET(target):  # it may come from an object, whose author must not be able to add lines to the request
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
                self.refuse("the proxy's answer is too long")
            return
        self.received = rest
        first = head.split(b"\r\n", 1)[0].split(b" ", 2)
        if len(first) < 2 or first[1] != b"200":
            self.refuse(f"proxyconnect tcp: {b' '.join(first[1:])[:200].decode('latin-1')}")
        else:
            self.hand_over()
