"""The metrics of KMS v2 (upstream: apiserver ``envelope/metrics/metrics.go``).  The number of key ids in them is limited."""

from __future__ import annotations

import time

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import counter, exponential, gauge, histogram
from kapi.machinery.server_id import server_id_hash

#: counted for the whole process, as upstream (apiserver ``storage/value/metrics.go``)
DATA_KEY_SECONDS = histogram("apiserver_storage_data_key_generation_duration_seconds", exponential(5e-06, 2, 14))
DATA_KEY_FAILURES = counter("apiserver_storage_data_key_generation_failures_total")
CACHE_MISSES = counter("apiserver_storage_envelope_transformation_cache_misses_total")
_MAX_ROWS = 100


class KmsMeter:
    def __init__(self) -> None:
        self._server = server_id_hash()
        self.latency = histogram(
            "apiserver_envelope_encryption_kms_operations_latency_seconds", exponential(0.0001, 2, 20)
        )
        self.key_ids = counter("apiserver_envelope_encryption_key_id_hash_total")
        self.last_used = gauge("apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds")
        self.last_status = gauge("apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds")
        self.invalid_key_ids = counter("apiserver_envelope_encryption_invalid_key_id_from_status_total")
        self.sources = gauge("apiserver_envelope_encryption_dek_source_cache_size")

    def register(self, registry: CollectorRegistry) -> None:
        for collector in (
            self.latency, self.key_ids, self.last_used, self.last_status, self.invalid_key_ids, self.sources,
        ):  # fmt: skip
            registry.register(collector)

    def used(self, kind: str, provider: str, key_id_hash: str) -> None:
        self.key_ids.add(kind, provider, key_id_hash, self._server)
        self.last_used.set(time.time(), kind, provider, key_id_hash, self._server)
        while len(self.key_ids.rows) > _MAX_ROWS:
            oldest = next(iter(self.key_ids.rows))
            del self.key_ids.rows[oldest]
            self.last_used.rows.pop(oldest, None)

    def status(self, provider: str, key_id_hash: str) -> None:
        self.last_status.set(time.time(), provider, key_id_hash, self._server)
        while len(self.last_status.rows) > _MAX_ROWS:
            del self.last_status.rows[next(iter(self.last_status.rows))]
