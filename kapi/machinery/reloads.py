"""Metrics of the reloads of a configuration.

Upstream: apiserver ``server/options/{authentication,authorization}config/metrics``, ``admission/plugin/manifest/metrics``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kapi.machinery.meters import counter, gauge, hashed
from kapi.machinery.server_id import server_id_hash


class Reloads(Collector):
    """Counts the reloads of one ``kind`` of configuration: "authentication", "manifest_admission".

    Each call passes the values of the labels that ``metrics.txt`` has beside status, server and hash.
    """

    def __init__(
        self, kind: str, registry: CollectorRegistry | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        prefix = f"apiserver_{kind}_config_controller_"
        self._clock = clock
        self._server = server_id_hash()
        self._total = counter(prefix + "automatic_reloads_total")
        self._last = gauge(prefix + "automatic_reload_last_timestamp_seconds")
        self._info = gauge(prefix + "last_config_info")
        if registry is not None:
            registry.register(self)

    def collect(self) -> Iterator[Metric]:
        for part in (self._total, self._last, self._info):
            yield from part.collect()

    def applied(self, content: bytes, *values: str) -> None:
        """Records the content that is in force now."""
        key = (*values, self._server)
        for row in [row for row in self._info.rows if row[:-1] == key]:
            del self._info.rows[row]
        self._info.set(1, *key, hashed(content))

    def succeeded(self, content: bytes, *values: str) -> None:
        self._note("success", *values)
        self.applied(content, *values)

    def failed(self, *values: str) -> None:
        self._note("failure", *values)

    def _note(self, status: str, *values: str) -> None:
        self._total.add(status, *values, self._server)
        self._last.set(self._clock(), status, *values, self._server)
