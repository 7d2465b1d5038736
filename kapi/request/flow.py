"""Whom the thread's time is counted for: a flow of a priority level (upstream: APF's flows; KEP-1040).

``kapi.flowcontrol`` classifies a request, ``kapi.scheduling.shares`` decides which flow is next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Work = Callable[[], object]


class Level:
    """A priority level's share of the thread's time; ``weight`` is relative to the other levels."""

    __slots__ = ("flow_time", "name", "ready", "time", "weight")

    def __init__(self, name: str, weight: float = 1.0) -> None:
        self.name = name
        self.weight = weight
        self.time = 0.0  # seconds of work divided by the weight
        self.flow_time = 0.0  # that of a flow which always gets its share of this level
        self.ready: list[tuple[float, int, Flow]] = []  # a heap of waiting flows by a time that may be outdated


class Flow:
    """The requests that a flow schema treats as one (of one user, say)."""

    __slots__ = ("__weakref__", "level", "time", "waiting")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.time = level.flow_time  # seconds of work
        self.waiting: deque[Work] = deque()
