"""Which way connections take: directly, or through the proxy of an egress selection (KEP-1281; upstream: apiserver
``server/egressselector``).

The dialer asks here; ``select`` says once, when the server is put together, what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol
from weakref import WeakKeyDictionary

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import TimeoutError
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)

from kapi.client.connect_tunnel import ProxyError, through
from kapi.request.reactor import Reactor

CLUSTER = "cluster"  # nodes, pods, services
CONTROL_PLANE = "controlplane"  # what is configured by its URL: webhooks, identity providers, audit
_HOST = "127.0.0.1"  # which upstream sends, whatever the target


class Meter(Protocol):
    """What is counted of dials through proxies; ``transport``: "tcp" or "uds"."""

    def begin(self, transport: str) -> None: ...

    def connected(self, transport: str, seconds: float) -> None: ...

    def failed(self, transport: str, stage: str) -> None: ...


class HTTPConnect:
    """The way through one proxy.  ``endpoint`` makes that of a connection to it; ``transport``: "tcp" or "uds"."""

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
        """A protocol of ``factory``, connected within ``timeout`` seconds.  Raises ProxyError, and what a connection raises."""
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


_selected: WeakKeyDictionary[IReactorTime, Mapping[str, HTTPConnect]] = WeakKeyDictionary()


def select(reactor: IReactorTime, ways: Mapping[str, HTTPConnect]) -> None:
    """From now on connections of this reactor to these networks take these ways."""
    _selected[reactor] = ways


def proxy_of(reactor: IReactorTime, network: str) -> HTTPConnect | None:
    """None: directly."""
    if not _selected:
        return None
    found = _selected.get(reactor)
    return None if found is None else found.get(network)
