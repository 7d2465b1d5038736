"""The proxies of egress selections, for connections to a network of the server (KEP-1281; upstream: apiserver
``server/egressselector``).

An Egress is made once, before anything that may connect; what connects gets it, or the proxy of its network, when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Metrics of connections through proxies; ``transport`` is "tcp" or "uds"."""

    def begin(self, transport: str) -> None: ...

    def connected(self, transport: str, seconds: float) -> None: ...

    def failed(self, transport: str, stage: str) -> None: ...

    def register(self, registry: CollectorRegistry) -> None: ...


class HTTPConnect:
    """Connections through one proxy.  ``endpoint`` makes the endpoint of the proxy; ``transport`` is "tcp" or "uds"."""

    def __init__(
        self, endpoint: Callable[[Reactor], IStreamClientEndpoint], name: str, transport: str, meter: Meter
    ) -> None:
        self._endpoint, self._name, self._transport, self._meter = endpoint, name, transport, meter

    async def connect(
        self,
        reactor: Reactor,
        target: str,
        factory: IProtocolFactory,
        options: IOpenSSLClientConnectionCreator | None,
        timeout: float,
    ) -> IProtocol:
        """A protocol of ``factory``, connected within ``timeout`` seconds.  Raises ProxyError and errors of the connection."""
        meter, transport = self._meter, self._transport
        meter.begin(transport)
        began = reactor.seconds()
        making = Deferred.fromCoroutine(through(self._endpoint(reactor), target, factory, options, host=_HOST))
        making.addTimeout(timeout, reactor, _timed_out)
        try:
            found = await making
        except CancelledError:
            raise
        except ProxyError as error:
            meter.failed(transport, "proxy")
            raise ProxyError(f"proxy error from {self._name} while dialing {target}: {error}") from None
        except Exception:
            meter.failed(transport, "connect")
            raise
        meter.connected(transport, reactor.seconds() - began)
        return found


def _timed_out(result: object, timeout: float) -> NoReturn:
    raise TimeoutError


class Egress:
    """The proxies of one server by the names of their networks, and the metrics of connections through them."""

    def __init__(self, proxies: Mapping[str, HTTPConnect], meter: Meter | None = None) -> None:
        self._proxies = proxies
        self.meter = meter

    def __bool__(self) -> bool:
        """Whether there is an egress configuration, of any network."""
        return bool(self._proxies)

    def proxy(self, network: str) -> HTTPConnect | None:
        """The proxy of a network; None when it is reached directly."""
        return self._proxies.get(network)


DIRECT = Egress({})  # without an egress configuration
