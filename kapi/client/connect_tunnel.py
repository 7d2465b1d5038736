"""A connection through a proxy's CONNECT (RFC 9110, 9.3.6): for kubeconfigs with a ``proxy-url``, and for egress selections."""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

MAX_REPLY = 64 * 1024  # bytes of a proxy's answer
_TARGET = re.compile(r"[^\x00-\x20\x7f]+").fullmatch


class ProxyError(Exception):
    """A proxy did not let us through."""


async def through(
    proxy: IStreamClientEndpoint, target: str, factory: Any, options: Any = None, *, host: str = "", headers: str = ""
) -> Any:
    """A protocol of ``factory``, connected to ``target`` (HOST:PORT), by TLS when there are ``options`` for it.

    ``host`` is the request's Host, by default the target; ``headers`` are further lines.  Raises ProxyError, and what the
    connection raises.
    """
    if not _TARGET(target):  # it may be what an object says, whose author is not to write the proxy's request
        raise ProxyError(f"no host and port: {target!r}")
    request = f"CONNECT {target} HTTP/1.1\r\nHost: {host or target}\r\n{headers}\r\n".encode()
    inner = factory if options is None else TLSMemoryBIOFactory(options, True, factory)
    made: Deferred[Any] = Deferred()
    asking: Any = Factory.forProtocol(lambda: _Tunnel(request, inner, made))
    tunnel: Any = await proxy.connect(asking)
    try:
        found = await made
    finally:
        if not getattr(tunnel, "through", False) and tunnel.transport is not None:
            tunnel.transport.abortConnection()
    return found if options is None else found.wrappedProtocol


class _Tunnel(Protocol):
    """Asks a proxy for a connection and then hands it over."""

    through = False

    def __init__(self, request: bytes, factory: Any, made: Deferred[Any]) -> None:
        self._request, self._factory, self._made = request, factory, made
        self._answer = b""
        self._inner: Any = None

    def connectionMade(self) -> None:
        self.transport.write(self._request)  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.dataReceived(data)
            return
        self._answer += data
        end = self._answer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._answer) > MAX_REPLY:
                self._refuse(ProxyError("the proxy's answer is too long"))
            return
        first = self._answer.split(b"\r\n", 1)[0].split(b" ", 2)
        if len(first) < 2 or first[1] != b"200":
            text = b" ".join(first[1:])[:200].decode("latin-1")
            self._refuse(ProxyError(f"proxyconnect tcp: {text}"))
            return
        rest = self._answer[end + 4 :]
        if rest:  # nobody has said anything to the target yet
            self._refuse(ProxyError(f"unexpected {len(rest)} bytes of buffered data from CONNECT proxy"))
            return
        if self._made.called:
            return
        self.through = True
        self._inner = self._factory.buildProtocol(self.transport.getPeer())  # type: ignore[union-attr]
        self._inner.makeConnection(self.transport)
        self._made.callback(self._inner)

    def _refuse(self, why: Exception) -> None:
        if not self._made.called:
            self._made.errback(why)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._inner is not None:
            self._inner.connectionLost(reason)
        else:
            self._refuse(ProxyError("the proxy has closed the connection"))
