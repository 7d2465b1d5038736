"""The bounds of upstream's histograms (``test/instrumentation/documentation``, and Go's default buckets)."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

import kapi.admission.metrics
import kapi.authorization.metrics
import kapi.flowcontrol.metrics
from kapi.authentication.certificates import expirations
from kapi.authentication.oidc.metrics import JWTMeter
from kapi.authentication.service_account.metrics import SignerMeter
from kapi.cel import environment as of_cel
from kapi.client import metrics as of_clients
from kapi.filters.metrics import FilterSeconds, IdentityMeter
from kapi.machinery.meters import Histogram
from kapi.observability.request_metrics import LATENCY, SIZES, RequestMetrics
from kapi.options.egress_proxies import EgressMeter
from kapi.registry.allocators.allocation import ADDRESS_SECONDS
from kapi.request import bodies
from kapi.runtime.workqueue import METRICS
from kapi.schema.managedfields import TIMESTAMP_COMPARISON
from kapi.schema.structural.correlation import RATCHETING
from kapi.servers.apiextensions import conversion
from kapi.store.encryption.kms_metrics import DATA_KEY_SECONDS, KmsMeter
from kapi.store.encryption.transformer import _seconds as transformations
from kapi.watchcache import counts

_DEFAULT = "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10"
_REQUESTS = "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60"
_DOUBLED = "0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384"
_CONDITIONS = "0.001 0.005 0.01 0.025 0.1 0.2 0.25"
_POLICIES = "5e-07 0.001 0.01 0.1 1"
_QUEUED = "0 0.005 0.02 0.05 0.1 0.2 0.5 1 2 5 10 15 30"
_BYTES = "64 256 512 1024 4096 16384 65536 262144 1048576 4194304 16777216"
_FILTERS = "0.0001 0.0003 0.001 0.003 0.01 0.03 0.1 0.3 1 5 10 15 30"
_MICROSECONDS = "5e-06 1e-05 2e-05 4e-05 8e-05 0.00016 0.00032 0.00064 0.00128 0.00256 0.00512 0.01024 0.02048 0.04096"
_WAITING = "1e-08 1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10"
UPSTREAM = {
    "apiextensions_apiserver_validation_ratcheting_seconds":
        "1e-05 4e-05 0.00016 0.00064 0.00256 0.01024 0.04096 0.16384 0.65536 2.62144",
    "apiserver_admission_controller_admission_duration_seconds": "0.005 0.025 0.1 0.5 1 2.5",
    "apiserver_admission_match_condition_evaluation_seconds": _CONDITIONS,
    "apiserver_admission_step_admission_duration_seconds": "0.005 0.025 0.1 0.5 1 2.5",
    "apiserver_admission_webhook_admission_duration_seconds": "0.005 0.025 0.1 0.5 1 2.5 10 25",
    "apiserver_authentication_jwt_authenticator_latency_seconds": "0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10",
    "apiserver_authorization_match_condition_evaluation_seconds": _CONDITIONS,
    "apiserver_authorization_webhook_duration_seconds": _DEFAULT,
    "apiserver_cel_compilation_duration_seconds": _DEFAULT,
    "apiserver_cel_evaluation_duration_seconds": _DEFAULT,
    "apiserver_client_certificate_expiration_seconds":
        "0 1800 3600 7200 21600 43200 86400 172800 345600 604800 2592000 7776000 15552000 31104000",
    "apiserver_conversion_webhook_duration_seconds": "0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 30 45 60",
    "apiserver_crd_conversion_webhook_duration_seconds": _DOUBLED,
    "apiserver_egress_dialer_dial_duration_seconds": "0.005 0.025 0.1 0.5 2.5 12.5",
    "apiserver_envelope_encryption_kms_operations_latency_seconds":
        "0.0001 0.0002 0.0004 0.0008 0.0016 0.0032 0.0064 0.0128 0.0256 0.0512 0.1024 0.2048 0.4096 0.8192 1.6384 3.2768 "
        "6.5536 13.1072 26.2144 52.4288",
    "apiserver_externaljwt_request_duration_seconds": "0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60",
    "apiserver_flowcontrol_request_execution_seconds": _QUEUED,
    "apiserver_flowcontrol_request_queue_length_after_enqueue": "0 10 25 50 100 250 500 1000",
    "apiserver_flowcontrol_request_wait_duration_seconds": _QUEUED,
    "apiserver_flowcontrol_watch_count_samples": "0 1 10 100 1000 10000",
    "apiserver_flowcontrol_work_estimated_seats": "1 2 4 8 16 32 64 100",
    "apiserver_impersonation_attempts_duration_seconds": _DOUBLED,
    "apiserver_impersonation_authorization_attempts_duration_seconds": _DOUBLED,
    "apiserver_mutating_admission_policy_check_duration_seconds": _POLICIES,
    "apiserver_request_timestamp_comparison_time": "0.0001 0.0003 0.001 0.003 0.01 0.03 0.1 0.3 1 5",
    "apiserver_storage_data_key_generation_duration_seconds": _MICROSECONDS,
    "apiserver_storage_transformation_duration_seconds":
        f"{_MICROSECONDS} 0.08192 0.16384 0.32768 0.65536 1.31072 2.62144 5.24288 10.48576 20.97152 41.94304 83.88608",
    "apiserver_validating_admission_policy_check_duration_seconds": _POLICIES,
    "authentication_duration_seconds": _DOUBLED,
    "authorization_duration_seconds": _DOUBLED,
    "kube_apiserver_clusterip_allocator_allocation_duration_seconds": _DEFAULT,
    "rest_client_exec_plugin_certificate_rotation_age":
        "600 1800 3600 14400 86400 604800 2592000 7776000 15552000 31104000 124416000",
    "rest_client_request_duration_seconds": "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60",
    "rest_client_request_size_bytes": _BYTES,
    "rest_client_response_size_bytes": _BYTES,
    "workqueue_queue_duration_seconds": _WAITING,
    "workqueue_work_duration_seconds": _WAITING,
}  # fmt: skip


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def made() -> list[Histogram]:
    registry = CollectorRegistry()
    meters = (
        kapi.admission.metrics.Meter(registry), kapi.authorization.metrics.AuthorizationMeter(),
        kapi.flowcontrol.metrics.Meter(), JWTMeter(), SignerMeter(registry), IdentityMeter(), EgressMeter(), KmsMeter(),
    )  # fmt: skip
    parts = [part for meter in meters for value in vars(meter).values() for part in _parts(value)]
    alone = (
        expirations(), transformations(), ADDRESS_SECONDS, TIMESTAMP_COMPARISON, RATCHETING, DATA_KEY_SECONDS,
        *vars(METRICS).values(), *conversion.COLLECTORS, *vars(of_cel).values(), *vars(of_clients).values(),
    )  # fmt: skip
    return [each for each in (*parts, *alone) if isinstance(each, Histogram)]


def _parts(value: object) -> list[object]:
    """Of a table of metrics too."""
    tables = value.values() if isinstance(value, dict) else [value]
    return [part for table in tables for part in (table if isinstance(table, tuple) else [table])]


def test_histograms_have_the_bounds_of_upstream() -> None:
    assert {each.name: pytest.approx(each.shown) for each in made()} == {
        name: numbers(bounds) for name, bounds in UPSTREAM.items()
    }


def test_histograms_of_requests_have_the_bounds_of_upstream() -> None:
    requests = RequestMetrics()
    assert list(LATENCY) == numbers(_REQUESTS)
    assert list(SIZES) == numbers("1000 10000 100000 1e6 1e7 1e8 1e9")
    assert list(requests._validated.bounds) == numbers(_REQUESTS)[2:]
    assert list(bodies.BOUNDS) == [50_000.0 + 100_000 * number for number in range(31)]
    (filters,) = FilterSeconds(IdentityMeter()).collect()
    shown = [sample.labels["le"] for sample in filters.samples if sample.labels.get("filter") == "authentication"
             and sample.name.endswith("_bucket")]  # fmt: skip
    assert [float(bound) for bound in shown] == [*numbers(_FILTERS), float("inf")]


def test_histograms_of_watch_caches_have_the_bounds_of_upstream() -> None:
    assert list(counts.WAITS) == numbers("0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3")
    assert list(counts.SIZES) == numbers("1024 2048 4096 8192 16384 32768 65536 131072")
    assert list(counts.LIST_SECONDS) == numbers("0.05 0.1 0.2 0.4 0.6 0.8 1 2 4 6 8 10 15 20 30 45 60")
