"""Feature gates for validation: those of the request, else the defaults of 1.36 (upstream: ``pkg/features``)."""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery.feature_gates import GATES


def enabled(features: Mapping[str, bool], name: str) -> bool:
    given = features.get(name)
    return GATES[name].default if given is None else given


def gate(ctx: object, name: str) -> bool:
    """As ``enabled``, for a StrategyContext or another object with ``features``; None means the defaults."""
    return enabled(getattr(ctx, "features", None) or {}, name)
