"""Where the spans of requests go: OpenTelemetry's SDK with an exporter over gRPC, as ``--tracing-config-file`` says.

Upstream: component-base ``tracing`` (NewProvider), apiserver ``server/options/tracing.go``.  Spans wait in the SDK's queue, which
has a bound; a thread of its own sends them, so that a collector that is slow or away costs spans and never a request.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.controllers.identity.controller import lease_name
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.options.tracing import TracingConfiguration
from kapi.request.reactor import Reactor
from kapi.server.lifecycle import bounded

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from kapi.filters.tracing import RequestTracing

_log = Logger()
_SERVICE = "apiserver"
_MAX_WAITING = 2048  # spans
_MAX_BATCH = 512  # spans
_SEND_INTERVAL_SECONDS = 1.0  # seconds
_SEND_TIMEOUT_SECONDS = 5.0  # seconds for a batch
_STOP_TIMEOUT_SECONDS = 2.0  # seconds for the last spans when the server stops
_LOG_INTERVAL_SECONDS = 60.0  # seconds between two lines about the same trouble


@dataclass(frozen=True, slots=True)
class Tracing:
    """What makes the spans of requests, and what sends the last of them when the server stops."""

    requests: RequestTracing
    stop: Callable[[], Awaitable[None]]


def build_tracing(options: Options, reactor: Reactor) -> Tracing | None:
    """None without ``--tracing-config-file``.  Raises ConfigError."""
    configuration = options.tracing.configuration()
    if configuration is None:
        return None
    try:
        from kapi.filters.tracing import RequestTracing

        provider = make_provider(configuration, options.generic.external_hostname)
    except ImportError as error:
        raise ConfigError(f"--tracing-config-file: {error}: install kapi[tracing]") from None

    async def stop() -> None:
        done: Deferred[None] = Deferred()

        def send_last() -> None:
            provider.shutdown()
            reactor.callFromThread(done.callback, None)

        threading.Thread(target=send_last, name="last spans", daemon=True).start()
        await bounded(done, _STOP_TIMEOUT_SECONDS, reactor)

    return Tracing(RequestTracing(provider.get_tracer("kapi"), reactor.seconds), stop)


def make_provider(configuration: TracingConfiguration, host: str = "") -> TracerProvider:
    """Raises ImportError without the extra."""
    # the store's server is forked, and is another program at once
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased

    _log_exporter_errors()
    rate = configuration.rate
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(rate) if rate else ALWAYS_OFF),
        resource=Resource.create(
            {"service.name": _SERVICE, "service.instance.id": lease_name(host or os.uname().nodename)}
        ),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=configuration.endpoint, insecure=True, timeout=_SEND_TIMEOUT_SECONDS)
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=_MAX_WAITING,
            schedule_delay_millis=int(_SEND_INTERVAL_SECONDS * 1000),
            max_export_batch_size=_MAX_BATCH,
        )
    )
    return provider


class _Complaints(logging.Handler):
    """The SDK's own log, in ours: each trouble once a minute."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._logged_at: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._logged_at.get(record.name, -_LOG_INTERVAL_SECONDS) >= _LOG_INTERVAL_SECONDS:  # a few modules
            self._logged_at[record.name] = now
            _log.warn("tracing: {text}", text=record.getMessage())


def _log_exporter_errors() -> None:
    logger = logging.getLogger("opentelemetry")
    logger.handlers[:] = [_Complaints()]
    logger.propagate = False
