"""Merging tolerations: of two that cover each other only the wider stays (upstream: ``pkg/util/tolerations``)."""

from __future__ import annotations

from typing import Any

Toleration = dict[str, Any]


def merged(first: list[Toleration], second: list[Toleration]) -> list[Toleration]:
    """Both lists without what another of them covers; of equal ones the first stays."""
    everything = [*first, *second]
    kept: list[Toleration] = []
    for i, toleration in enumerate(everything):
        if any(covers(other, toleration) for other in kept):
            continue
        if any(other != toleration and covers(other, toleration) for other in everything[i + 1 :]):
            continue
        kept.append(toleration)
    return kept


def covers(wide: Toleration, narrow: Toleration) -> bool:
    """Whether one toleration tolerates all that another does."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    if narrow.get("key", "") != wide.get("key", "") and (wide.get("key") or operator != "Exists"):
        return False
    if wide.get("effect") and narrow.get("effect", "") != wide["effect"]:
        return False
    if wide.get("effect") == "NoExecute" and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Equal":
        return narrow.get("operator") == "Equal" and wide.get("value", "") == narrow.get("value", "")
    return operator == "Exists"
