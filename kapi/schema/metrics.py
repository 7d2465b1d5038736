"""The duration of comparisons between the old and the new object of an update (upstream: apiserver ``endpoints/metrics``)."""

from __future__ import annotations

from kapi.machinery.meters import Histogram

TIMESTAMP_COMPARISON = Histogram(
    "apiserver_request_timestamp_comparison_time",
    "[ALPHA] Time taken for comparison of old vs new objects in UPDATE or PATCH requests",
    ("code_path",),
    (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0),
)
