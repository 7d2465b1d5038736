"""Feature gates for validation: the request's, or the defaults of 1.36 (upstream: ``pkg/features``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapi.machinery.feature_gates import GATES


def enabled(features: Mapping[str, bool], name: str) -> bool:
    given = features.get(name)
    return GATES[name].default if given is None else given


def all_enabled(features: Mapping[str, bool], names: Iterable[str]) -> bool:
    for name in names:  # for each pod and each row of its gates: all() with a generator takes twice as long
        given = features.get(name)
        if not (GATES[name].default if given is None else given):
            return False
    return True


def features_of(ctx: object) -> Mapping[str, bool]:
    """The gates of a StrategyContext or another object with ``features``; the defaults if it has none."""
    return getattr(ctx, "features", None) or {}


def gate(ctx: object, name: str) -> bool:
    """``enabled`` for a StrategyContext or another object with ``features``; None means the defaults."""
    return enabled(features_of(ctx), name)
