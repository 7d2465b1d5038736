"""``/metrics/slis``: the outcome of every health check as metrics (KEP-3466; upstream: component-base ``metrics/slis``).

A scrape runs the checks, so that the metrics do not depend on probes.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapi.observability.metrics import CONTENT_TYPE
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.health import HealthChecks
from kapi.serving.routing import Routes

_GAUGE = (
    "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n"
    "# TYPE kubernetes_healthcheck gauge\n"
)
_TOTAL = (
    "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n"
    "# TYPE kubernetes_healthchecks_total counter\n"
)


class HealthIndicators:
    """Counts outcomes by check and endpoint."""

    app = Routes()

    def __init__(self, endpoints: Sequence[HealthChecks]) -> None:
        self._endpoints = tuple(endpoints)
        self._totals: dict[tuple[str, str, str], int] = {}

    @app.route("/metrics/slis")
    def exposition(self, ctx: RequestContext) -> Response:
        gauges = []
        for endpoint in self._endpoints:
            kind, failed = endpoint.path.strip("/"), endpoint.failures()
            for name in sorted(endpoint.checks):
                status = "error" if name in failed else "success"
                gauges.append(f'kubernetes_healthcheck{{name="{name}",type="{kind}"}} {int(name not in failed)}\n')
                key = (name, status, kind)
                self._totals[key] = self._totals.get(key, 0) + 1
        totals = [
            f'kubernetes_healthchecks_total{{name="{name}",status="{status}",type="{kind}"}} {count}\n'
            for (name, status, kind), count in sorted(self._totals.items())
        ]
        text = _GAUGE + "".join(gauges) + _TOTAL + "".join(totals)
        return Response(200, text.encode(), CONTENT_TYPE)
