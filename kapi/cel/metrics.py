"""The duration of compilations and evaluations (upstream: apiserver ``cel/metrics``)."""

from __future__ import annotations

from kapi.machinery.meters import DEFAULT_BOUNDS, histogram

COMPILATION = histogram("apiserver_cel_compilation_duration_seconds", DEFAULT_BOUNDS)
#: of one expression; of all rules of a custom resource together, as in upstream
EVALUATION = histogram("apiserver_cel_evaluation_duration_seconds", DEFAULT_BOUNDS)
