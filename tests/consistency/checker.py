"""Explains every answer by one history.  Linear in what was done, but for bisections.

A revision orders everything, so linearizability needs no search: each acknowledged write has its place, a write of
unknown outcome has one or none, and a read is right when it shows the state at a revision that is neither older than
what anybody knew before it began nor newer than what had begun when it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.consistency.check_log import check_log
from tests.consistency.check_reads import check_listings, check_reads, check_refusals
from tests.consistency.check_watches import check_gone, check_streams
from tests.consistency.check_writes import check_writes
from tests.consistency.history import History
from tests.consistency.records import Journal
from tests.consistency.timeline import Timeline

__all__ = ["Bounds", "check"]


@dataclass
class Bounds:
    """What is right beside the history.  ``shaken`` are the times (from, to) in which feeds may have begun anew."""

    history_age: float = float("inf")  # seconds; what is older may be compacted
    quota: int = 0
    quota_namespace: str = ""
    shaken: Sequence[tuple[float, float]] = ()


def check(history: History, journal: Journal, bounds: Bounds) -> list[str]:
    """What the history does not explain, one line each."""
    timeline = Timeline(history, journal)
    problems = list(journal.complaints)
    problems += check_log(history, bounds.quota_namespace, bounds.quota)
    problems += check_writes(history, journal, timeline)
    problems += check_refusals(history, journal, timeline)
    problems += check_reads(history, journal, timeline)
    problems += check_listings(history, journal, timeline)
    problems += check_streams(history, journal, timeline)
    problems += check_gone(journal, timeline, bounds.history_age, bounds.shaken)
    return problems
