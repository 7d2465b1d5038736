"""For whom the thread works on a request: a flow of a priority level (upstream: APF's flow distinguisher; KEP-1040).

``kapi.flowcontrol`` finds a request's, ``kapi.scheduling.shares`` says which one is next.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Worker(Protocol):
    """A connection with something to be read or written, or a request that can go on."""

    flow: Flow | None  # who has to pay for it; known while it waits

    def take_turn(self) -> None:
        """Does what there is to do.  Raises nothing."""


class Level:
    """A priority level's part; ``weight`` is relative to those of the others."""

    __slots__ = ("clock", "name", "ready", "time", "weight")

    def __init__(self, name: str, weight: float = 1.0) -> None:
        self.name = name
        self.weight = weight
        self.time = 0.0  # seconds of work by weight
        self.clock = 0.0  # where a flow stands that has its share all the time
        self.ready: list[tuple[float, int, Flow]] = []  # a heap of those that wait, by a time that may have moved on


class Flow:
    """What one user does in a level, as its flow schema distinguishes users."""

    __slots__ = ("__weakref__", "level", "time", "workers")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.time = level.clock  # seconds of work
        self.workers: deque[Worker] = deque()
