"""The metrics of KMS v2 (upstream: apiserver ``envelope/metrics/metrics.go``).  The number of key ids in them is limited."""

from __future__ import annotations

import time

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import Counter, Gauge, Histogram, exponential
from kapi.machinery.server_id import server_id_hash

#: counted for the whole process, as upstream (apiserver ``storage/value/metrics.go``)
DATA_KEY_SECONDS = Histogram(
    "apiserver_storage_data_key_generation_duration_seconds",
    "[ALPHA] Latencies in seconds of data encryption key(DEK) generation operations.",
    (),
    exponential(5e-6, 2, 14),
)
DATA_KEY_FAILURES = Counter(
    "apiserver_storage_data_key_generation_failures_total",
    "[ALPHA] Total number of failed data encryption key(DEK) generation operations.",
)
CACHE_MISSES = Counter(
    "apiserver_storage_envelope_transformation_cache_misses_total",
    "[ALPHA] Total number of cache misses while accessing key decryption key(KEK).",
)
_PREFIX = "apiserver_envelope_encryption_"
_MAX_ROWS = 100
_USED = ("transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash")


class KmsMeter:
    def __init__(self) -> None:
        self._server = server_id_hash()
        self.latency = Histogram(
            f"{_PREFIX}kms_operations_latency_seconds",
            "[ALPHA] KMS operation duration with gRPC error code status total.",
            ("provider_name", "method_name", "grpc_status_code"),
            exponential(0.0001, 2, 20),
        )
        self.key_ids = Counter(
            f"{_PREFIX}key_id_hash_total",
            "[ALPHA] Number of times a keyID is used split by transformation type, provider, and apiserver identity.",
            _USED,
        )
        self.last_used = Gauge(
            f"{_PREFIX}key_id_hash_last_timestamp_seconds",
            "[ALPHA] The last time in seconds when a keyID was used.",
            _USED,
        )
        self.last_status = Gauge(
            f"{_PREFIX}key_id_hash_status_last_timestamp_seconds",
            "[ALPHA] The last time in seconds when a keyID was returned by the Status RPC call.",
            _USED[1:],
        )
        self.invalid_key_ids = Counter(
            f"{_PREFIX}invalid_key_id_from_status_total",
            "[ALPHA] Number of times an invalid keyID is returned by the Status RPC call split by error.",
            ("provider_name", "error"),
        )
        self.sources = Gauge(
            f"{_PREFIX}dek_source_cache_size",
            "[ALPHA] Number of records in data encryption key (DEK) source cache. On a restart, this value is an "
            "approximation of the number of decrypt RPC calls the server will make to the KMS plugin.",
            ("provider_name",),
        )

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
