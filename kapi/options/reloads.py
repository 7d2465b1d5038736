"""Metrics of a configuration file that is reloaded while the server runs.

Upstream: apiserver ``server/options/{authentication,authorization}config/metrics``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import Counter, Gauge, hashed
from kapi.machinery.server_id import server_id_hash


class Reloads:
    """Counts the reloads of one file.  ``kind``: "authentication", "authorization" or "encryption"."""

    def __init__(
        self, kind: str, registry: CollectorRegistry | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        prefix, labels = f"apiserver_{kind}_config_controller_", ("status", "apiserver_id_hash")
        self._clock = clock
        self._server = server_id_hash()
        self._total = Counter(
            prefix + "automatic_reloads_total",
            f"[BETA] Total number of automatic reloads of {kind} configuration split by status and apiserver identity.",
            labels,
        )
        self._last = Gauge(
            prefix + "automatic_reload_last_timestamp_seconds",
            f"[BETA] Timestamp of the last automatic reload of {kind} configuration split by status and apiserver "
            "identity.",
            labels,
        )
        self._info = Gauge(
            prefix + "last_config_info",
            f"[ALPHA] Information about the last applied {kind} configuration with hash as label, split by apiserver "
            "identity.",
            ("apiserver_id_hash", "hash"),
        )
        if registry is not None:
            for collector in (self._total, self._last, self._info):
                registry.register(collector)

    def applied(self, content: bytes) -> None:
        """Notes the content that is in force now."""
        self._info.rows.clear()
        self._info.set(1, self._server, hashed(content))

    def succeeded(self, content: bytes) -> None:
        self._note("success")
        self.applied(content)

    def failed(self) -> None:
        self._note("failure")

    def _note(self, status: str) -> None:
        self._total.add(status, self._server)
        self._last.set(self._clock(), status, self._server)
