"""The metric of unavailable aggregated servers (upstream: kube-aggregator ``pkg/controllers/status/metrics``)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from kapi.resources.apiregistration import is_available
from kapi.resources.definition import Lister


def unavailable_services(lister: Lister) -> Iterator[Metric]:
    """One series for each APIService of ``lister``."""
    family = GaugeMetricFamily(
        "aggregator_unavailable_apiservice",
        "[ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name.",
        labels=["name"],
    )
    for service in lister.list():
        family.add_metric([service["metadata"]["name"]], 0.0 if is_available(service) else 1.0)
    yield family
