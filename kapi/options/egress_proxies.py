"""The proxies of the egress configuration, and their metrics.

Upstream: apiserver ``server/egressselector/egress_selector.go`` and its ``metrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from prometheus_client.registry import CollectorRegistry
from twisted.internet.endpoints import UNIXClientEndpoint, wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint

from kapi.machinery.meters import Counter, Histogram
from kapi.options.egress import Selection
from kapi.options.errors import ConfigError, read_file
from kapi.process.reactor import Reactor
from kapi.wire.dial import CONNECT_TIMEOUT, Dialer
from kapi.wire.egress import Egress, EgressProxy, by_connect
from kapi.wire.konnectivity import by_call
from kapi.wire.tls.trust import client_options, identity

_FLAG = "egress-selector-config-file"
_LABELS = ("protocol", "transport")


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
        prefix = "apiserver_egress_dialer_dial_"
        self._starts = Counter(
            f"{prefix}start_total",
            "[ALPHA] Dial starts, labeled by the protocol (http-connect or grpc) and transport (tcp or uds).",
            _LABELS,
        )
        self._seconds = Histogram(
            f"{prefix}duration_seconds",
            "[ALPHA] Dial latency histogram in seconds, labeled by the protocol (http-connect or grpc), transport (tcp or uds)",
            _LABELS,
            [0.005, 0.025, 0.1, 0.5, 2.5, 12.5],
        )
        self._failures = Counter(
            f"{prefix}failure_count",
            "[ALPHA] Dial failure count, labeled by the protocol (http-connect or grpc), transport (tcp or uds), and stage "
            "(connect or proxy). The stage indicates at which stage the dial failed",
            (*_LABELS, "stage"),
        )

    def register(self, registry: CollectorRegistry) -> None:
        for collector in (self._starts, self._seconds, self._failures):
            registry.register(collector)

    def begin(self, protocol: str, transport: str) -> None:
        self._starts.add(protocol, transport)

    def connected(self, protocol: str, transport: str, seconds: float) -> None:
        self._seconds.observe(seconds, protocol, transport)

    def failed(self, protocol: str, transport: str, stage: str) -> None:
        self._failures.add(protocol, transport, stage)
