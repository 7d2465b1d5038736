"""``/metrics/slis``: the outcome of every health check as metrics (KEP-3466; upstream: component-base ``metrics/slis``).

A scrape runs the checks, so that the metrics do not depend on probes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from kapi.endpoints.writer import compress, wants_gzip
from kapi.machinery.meters import counter, gauge
from kapi.observability.metrics import CONTENT_TYPE, lines, started, was_reset
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.health import HealthChecks
from kapi.serving.routing import Routes


class HealthIndicators:
    """Counts outcomes by check and endpoint."""

    app = Routes()

    def __init__(
        self, endpoints: Sequence[HealthChecks], *, resets: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        """``resets``: DELETE resets the metrics."""
        self._headers = started(clock)
        self._endpoints, self._resets = tuple(endpoints), resets
        self._states = gauge("kubernetes_healthcheck")
        self._totals = counter("kubernetes_healthchecks_total")

    @app.route("/metrics/slis")
    def exposition(self, ctx: RequestContext) -> Response:
        if self._resets and ctx.method == "DELETE":
            self._states.rows.clear()
            self._totals.rows.clear()
            return was_reset()
        for endpoint in self._endpoints:
            kind, failed = endpoint.path.strip("/"), endpoint.failures()
            for name in endpoint.checks:
                self._states.set(int(name not in failed), name, kind)
                self._totals.add(name, "error" if name in failed else "success", kind)
        families = chain(self._states.collect(), self._totals.collect(), _process_start())
        text, headers = "".join(chain.from_iterable(map(lines, families))).encode(), self._headers
        if wants_gzip(ctx):  # of any size: Prometheus' handler does it, not the one of the API
            text, headers = compress([text]), (*headers, (b"Content-Encoding", b"gzip"))
        return Response(200, text, CONTENT_TYPE, headers)


def _process_start() -> Iterator[Metric]:
    """By which a reader of the counters knows that they have begun anew; where the system tells it."""
    for family in ProcessCollector(registry=None).collect():
        if family.name == "process_start_time_seconds":
            family.documentation = f"[ALPHA] {family.documentation}"
            yield family
