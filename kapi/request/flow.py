"""Whom the thread's time is counted for: a flow of a priority level (upstream: APF's flows; KEP-1040).

``kapi.flowcontrol`` classifies a request, ``kapi.scheduling.shares`` decides which flow is next.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Worker(Protocol):
    """A connection that can be read or written, or a request that can continue."""

    flow: Flow | None  # whose time its work is counted for; set while it waits

    def take_turn(self) -> None:
        """Does the work.  Raises nothing."""


class Level:
    """A priority level's share of the thread's time; ``weight`` is relative to the other levels."""

    __slots__ = ("flow_virtual_time", "name", "ready", "virtual_time", "weight")

    def __init__(self, name: str, weight: float = 1.0) -> None:
        self.name = name
        self.weight = weight
        self.virtual_time = 0.0  # seconds of work divided by the weight
        self.flow_virtual_time = 0.0  # that of a flow which always gets its share of this level
        self.ready: list[tuple[float, int, Flow]] = []  # a heap of waiting flows by a virtual time that may be outdated


class Flow:
    """The requests that a flow schema treats as one (of one user, say)."""

    __slots__ = ("__weakref__", "level", "virtual_time", "workers")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.virtual_time = level.flow_virtual_time  # seconds of work
        self.workers: deque[Worker] = deque()
