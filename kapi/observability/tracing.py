"""Sends the spans of requests with OpenTelemetry's SDK, over gRPC, as configured by ``--tracing-config-file``.

Upstream: component-base ``tracing`` (NewProvider), apiserver ``server/options/tracing.go``.  Spans wait in the SDK's bounded
queue, and one thread sends them.  With a slow collector spans are lost, but no request is delayed.
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

from kapi.machinery.server_id import server_id
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.options.tracing import TracingConfiguration
from kapi.process.reactor import Reactor
from kapi.serving.life import bounded

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from kapi.filters.tracing import RequestTracing

log = Logger()
_SERVICE = "apiserver"
_MAX_WAITING = 2048  # spans
_MAX_BATCH = 512  # spans
_SEND_INTERVAL_SECONDS = 1.0
_SEND_TIMEOUT_SECONDS = 5.0  # for a batch
_STOP_TIMEOUT_SECONDS = 2.0  # for the last spans when the server stops
_LOG_INTERVAL_SECONDS = 60.0  # between two log lines of the same module


@dataclass(frozen=True, slots=True)
class Tracing:
    """Makes the spans of requests; ``stop`` sends the last ones."""

    requests: RequestTracing
    stop: Callable[[], Awaitable[None]]


def build_tracing(options: Options, reactor: Reactor) -> Tracing | None:
    """Tracing as configured; None without ``--tracing-config-file``.  Raises ConfigError."""
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
    """The SDK's provider of tracers.  Raises ImportError without the extra ``kapi[tracing]``."""
    # forks of this process (the store's server) run another program at once, and need no gRPC
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
        resource=Resource.create({"service.name": _SERVICE, "service.instance.id": server_id(host)}),
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
    """Forwards the SDK's warnings to kapi's log, at most one a minute from each module."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._logged_at: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._logged_at.get(record.name, -_LOG_INTERVAL_SECONDS) >= _LOG_INTERVAL_SECONDS:  # a few modules
            self._logged_at[record.name] = now
            log.warn("tracing: {text}", text=record.getMessage())


def _log_exporter_errors() -> None:
    logger = logging.getLogger("opentelemetry")
    logger.handlers[:] = [_Complaints()]
    logger.propagate = False
