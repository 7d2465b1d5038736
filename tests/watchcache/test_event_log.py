"""How much of the history of all caches is kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kapi.watchcache.event_log import EventLog


def event(revision: int, size: int) -> Any:
    return SimpleNamespace(revision=revision, entry=SimpleNamespace(data=b"x" * size))


def filled(limit: int) -> EventLog:
    log = EventLog(10.0, limit)
    log.add(event(1, 5_000))
    log.take((event(revision, 500) for revision in (2, 3, 4)), 0.0, 4)
    return log


def test_the_oldest_are_dropped_until_the_others_are_small_enough() -> None:
    log = filled(3000)
    assert (log.trim(1.0, 4, 1), len(log)) == ((1, 0), 3)
    log.add(event(5, 500))
    assert (log.trim(1.0, 5, 1), len(log)) == ((2, 2), 3)
    log.add(event(6, 501))
    assert (log.trim(1.0, 6, 2), len(log)) == ((4, 4), 2)


def test_the_last_one_stays_whatever_its_size_and_age() -> None:
    log = filled(999)
    assert (log.trim(1.0, 4, 1), len(log)) == ((3, 3), 1)
    assert (log.trim(100.0, 4, 3), len(log)) == ((4, 0), 1)
    assert (EventLog(10.0, 1).trim(1.0, 7, 7), len(EventLog(10.0, 1))) == ((7, 0), 0)


def test_those_are_dropped_that_are_as_old_as_the_age() -> None:
    log = filled(100_000)
    log.add(event(5, 500))
    assert log.trim(9.5, 5, 1) == (1, 0)
    assert (log.trim(10.0, 5, 1), len(log)) == ((4, 4), 1)
    log.add(event(6, 500))
    assert (log.trim(19.0, 6, 4), len(log)) == ((4, 0), 2)
    assert (log.trim(19.5, 6, 4), len(log)) == ((5, 5), 1)
