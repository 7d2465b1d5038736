"""Metrics of the bytes that wait for slow clients, and of what was refused because of them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kapi.request.pending import Pending


def pending_families(pending: Pending) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "kapi_pending_bytes",
        "[ALPHA] Bytes of answers, events and bodies that wait for clients which are slow.",
        value=pending.size,
    )
    refusals = CounterMetricFamily(
        "kapi_pending_refusals_total",
        "[ALPHA] Counter of requests answered with 429 (refused) and clients disconnected (cut_off) because too much waited.",
        labels=("how",),
    )
    refusals.add_metric(["refused"], pending.refused)
    refusals.add_metric(["cut_off"], pending.cut_off)
    yield refusals
