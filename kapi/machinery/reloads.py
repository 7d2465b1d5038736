"""Metrics of the reloads of a configuration.

Upstream: apiserver ``server/options/{authentication,authorization}config/metrics``, ``admission/plugin/manifest/metrics``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kapi.machinery.meters import Counter, Gauge, hashed
from kapi.machinery.server_id import server_id_hash

_SERVER = "apiserver_id_hash"


class Reloads(Collector):
    """Counts the reloads of one ``kind`` of configuration: "authentication", "manifest_admission".

    ``labels``: further labels of all its metrics; each call passes their values.
    """

    def __init__(
        self,
        kind: str,
        registry: CollectorRegistry | None = None,
        clock: Callable[[], float] = time.time,
        *,
        name: str = "",
        stability: str = "[BETA]",
        labels: tuple[str, ...] = (),
    ) -> None:
        prefix, name = f"apiserver_{kind}_config_controller_", f"{name or kind} configuration"
        split = f"split by {', '.join(('status', *labels))} and apiserver identity."
        self._clock = clock
        self._server = server_id_hash()
        self._total = Counter(
            prefix + "automatic_reloads_total",
            f"{stability} Total number of automatic reloads of {name} {split}",
            ("status", *labels, _SERVER),
        )
        self._last = Gauge(
            prefix + "automatic_reload_last_timestamp_seconds",
            f"{stability} Timestamp of the last automatic reload of {name} {split}",
            ("status", *labels, _SERVER),
        )
        self._info = Gauge(
            prefix + "last_config_info",
            f"[ALPHA] Information about the last applied {name} with hash as label, split by apiserver identity.",
            (*labels, _SERVER, "hash"),
        )
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
