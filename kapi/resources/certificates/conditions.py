"""Conditions of requests for certificates as signers and approvers write them (upstream: the strategies in
``pkg/registry/certificates``).
"""

from __future__ import annotations

from collections.abc import Iterable

from kapi.machinery.each import elements
from kapi.machinery.tree import Object


def keep_conditions(new: list[Object], before: list[Object], kinds: Iterable[str]) -> None:
    """Restores conditions of these types, unless their number has changed."""
    for kind in kinds:
        places = [index for index, item in enumerate(elements(new)) if item.get("type") == kind]
        kept = [item for item in elements(before) if item.get("type") == kind]
        if len(places) == len(kept):
            for place, item in zip(places, kept, strict=True):
                new[place] = dict(item)


def fill_transition_times(new: list[Object], before: list[Object], now: str) -> None:
    """Sets missing transition times; a condition with unchanged type and status keeps its time."""
    times: dict[tuple[object, object], str] = {}
    for item in elements(before):
        if item.get("lastTransitionTime"):
            times.setdefault((item.get("type"), item.get("status")), item["lastTransitionTime"])
    for item in elements(new):
        if not item.get("lastTransitionTime"):
            item["lastTransitionTime"] = times.get((item.get("type"), item.get("status")), now)
