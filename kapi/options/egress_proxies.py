"""The proxies of the egress configuration, and their metrics.

Upstream: apiserver ``server/egressselector/egress_selector.go`` and its ``metrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from prometheus_client.registry import CollectorRegistry
from twisted.internet.endpoints import UNIXClientEndpoint, wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint

from kapi.machinery.meters import counter, histogram
from kapi.options.egress import Selection
from kapi.options.errors import ConfigError, read_file
from kapi.process.reactor import Reactor
from kapi.wire.dial import CONNECT_TIMEOUT, Dialer
from kapi.wire.egress import Egress, EgressProxy, by_connect
from kapi.wire.konnectivity import by_call
from kapi.wire.tls.trust import client_options, identity

_FLAG = "egress-selector-config-file"


def make_egress(selections: Sequence[Selection]) -> Egress:
    """The proxies of ``--egress-selector-config-file``.  Raises ConfigError."""
    meter = EgressMeter()
    return Egress({each.name: _proxy(each, meter) for each in selections}, meter)


def _proxy(selection: Selection, meter: EgressMeter) -> EgressProxy:
    """The proxy of a network.  Raises ConfigError."""
    endpoint, name, transport = _endpoint(selection)
    if selection.is_grpc:
        return EgressProxy(endpoint, by_call, ("grpc", transport), meter)
    return EgressProxy(endpoint, by_connect(name), ("http_connect", transport), meter)


def _endpoint(selection: Selection) -> tuple[Callable[[Reactor], IStreamClientEndpoint], str, str]:
    """(endpoint factory, name in errors, transport) of a proxy.  Raises ConfigError."""
    if selection.socket:

        def local(reactor: Reactor) -> IStreamClientEndpoint:
            found: IStreamClientEndpoint = UNIXClientEndpoint(reactor, selection.socket, timeout=CONNECT_TIMEOUT)
            return found

        return local, selection.socket, "uds"
    parts = urlsplit(selection.url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    def plain(reactor: Reactor) -> IStreamClientEndpoint:
        return Dialer(reactor).endpoint(host, port)

    if parts.scheme == "http":
        return plain, parts.netloc, "tcp"
    try:
        bundle = read_file(selection.ca, _FLAG) if selection.ca else b""
        own = identity(read_file(selection.certificate, _FLAG), read_file(selection.key, _FLAG))
        creator = client_options(selection.server_name or host, bundle, own)
    except ValueError as error:
        raise ConfigError(f"--{_FLAG}: {selection.name}: TLS files cannot be used: {error}") from None

    def secure(reactor: Reactor) -> IStreamClientEndpoint:
        wrapped: IStreamClientEndpoint = wrapClientTLS(creator, plain(reactor))
        return wrapped

    return secure, parts.netloc, "tcp"


class EgressMeter:
    """Metrics of dials through proxies."""

    def __init__(self) -> None:
        self._starts = counter("apiserver_egress_dialer_dial_start_total")
        self._seconds = histogram("apiserver_egress_dialer_dial_duration_seconds", [0.005, 0.025, 0.1, 0.5, 2.5, 12.5])
        self._failures = counter("apiserver_egress_dialer_dial_failure_count")

    def register(self, registry: CollectorRegistry) -> None:
        for collector in (self._starts, self._seconds, self._failures):
            registry.register(collector)

    def begin(self, protocol: str, transport: str) -> None:
        self._starts.add(protocol, transport)

    def connected(self, protocol: str, transport: str, seconds: float) -> None:
        self._seconds.observe(seconds, protocol, transport)

    def failed(self, protocol: str, transport: str, stage: str) -> None:
        self._failures.add(protocol, transport, stage)
