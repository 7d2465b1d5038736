"""A connection through a proxy: first a negotiation with the proxy, then the connection belongs to another protocol."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from kapi.request.transport import StreamTransport


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
        self.received = b""  # data of the proxy that was not read yet
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
        if self.received:  # the target cannot have answered yet: nothing was sent to it
            self.refuse(f"unexpected {len(self.received)} bytes of buffered data from {self.kind}")
        elif not self._made.called:
            self.is_through = True
            self._inner = inner = self._factory.buildProtocol(self.transport.getPeer())
            assert inner is not None  # factories of the library always build one
            inner.makeConnection(self.transport)
            self._made.callback(inner)

    def refuse(self, why: str) -> None:
        if not self._made.called:
            self._made.errback(ProxyError(why))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._inner is not None:
            self._inner.connectionLost(reason)
        else:
            self.refuse("the proxy has closed the connection")

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
