"""The duration of comparisons for ratcheting (upstream: apiextensions-apiserver ``validation/metrics.go``)."""

from __future__ import annotations

from kapi.machinery.meters import Histogram, exponential

RATCHETING = Histogram(
    "apiextensions_apiserver_validation_ratcheting_seconds",
    "[ALPHA] Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in seconds.",
    (),
    exponential(0.00001, 4, 10),
)
