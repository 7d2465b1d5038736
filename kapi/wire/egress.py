"""The proxies of egress selections, for connections to a network of the server (KEP-1281; upstream: apiserver
``server/egressselector``).

An Egress is made once, before anything that may connect; what connects gets it, or the proxy of its network, when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, NoReturn, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import TimeoutError
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)

from kapi.process.reactor import Reactor
from kapi.wire.tunnel import ProxyError, through

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

CLUSTER = "cluster"  # nodes, pods, services
CONTROL_PLANE = "controlplane"  # what is configured by its URL: webhooks, audit
STORE = "etcd"  # as upstream calls it
_HOST = "127.0.0.1"  # the Host header that upstream sends, whatever the target is


class Meter(Protocol):
    """Metrics of connections through proxies; ``protocol`` is "http_connect" or "grpc", ``transport`` "tcp" or "uds"."""

    def begin(self, protocol: str, transport: str) -> None: ...

    def connected(self, protocol: str, transport: str, seconds: float) -> None: ...

    def failed(self, protocol: str, transport: str, stage: str) -> None: ...

    def register(self, registry: CollectorRegistry) -> None: ...


#: (reactor, endpoint of the proxy, HOST:PORT, factory, TLS or None): a protocol of the factory, connected through the proxy.
#: Raises ProxyError and errors of the connection.
Through = Callable[
    [Reactor, IStreamClientEndpoint, str, IProtocolFactory, IOpenSSLClientConnectionCreator | None],
    Coroutine[Deferred[object], object, IProtocol],
]


def by_connect(name: str) -> Through:
    """Through a proxy that knows CONNECT, with its ``name`` in errors."""

    async def connect(
        reactor: Reactor,
        proxy: IStreamClientEndpoint,
        target: str,
        factory: IProtocolFactory,
        options: IOpenSSLClientConnectionCreator | None,
    ) -> IProtocol:
        try:
            return await through(proxy, target, factory, options, host=_HOST)
        except ProxyError as error:
            raise ProxyError(f"proxy error from {name} while dialing {target}: {error}") from None

    return connect


class EgressProxy:
    """Connections through one proxy.  ``endpoint`` makes the endpoint of the proxy; ``labels`` are protocol and transport."""

    def __init__(
        self,
        endpoint: Callable[[Reactor], IStreamClientEndpoint],
        through: Through,
        labels: tuple[str, str],
        meter: Meter,
    ) -> None:
        self._endpoint, self._through, self._labels, self._meter = endpoint, through, labels, meter

    async def connect(
        self,
        reactor: Reactor,
        target: str,
        factory: IProtocolFactory,
        options: IOpenSSLClientConnectionCreator | None,
        timeout: float,
    ) -> IProtocol:
        """A protocol of ``factory``, connected within ``timeout`` seconds.  Raises ProxyError and errors of the connection."""
        meter, labels = self._meter, self._labels
        meter.begin(*labels)
        began = reactor.seconds()
        making = Deferred.fromCoroutine(self._through(reactor, self._endpoint(reactor), target, factory, options))
        making.addTimeout(timeout, reactor, _timed_out)
        try:
            found = await making
        except CancelledError:
            raise
        except Exception as error:
            meter.failed(*labels, "proxy" if isinstance(error, ProxyError) else "connect")
            raise
        meter.connected(*labels, reactor.seconds() - began)
        return found


def _timed_out(result: object, timeout: float) -> NoReturn:
    raise TimeoutError


class Egress:
    """The proxies of one server by the names of their networks, and the metrics of connections through them."""

    def __init__(self, proxies: Mapping[str, EgressProxy], meter: Meter | None = None) -> None:
        self._proxies = proxies
        self.meter = meter

    def __bool__(self) -> bool:
        """Whether there is an egress configuration, of any network."""
        return bool(self._proxies)

    def proxy(self, network: str) -> EgressProxy | None:
        """The proxy of a network; None when it is reached directly."""
        return self._proxies.get(network)


DIRECT = Egress({})  # without an egress configuration
