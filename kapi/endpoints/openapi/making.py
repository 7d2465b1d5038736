"""Makes documents in slices, because large ones take a tenth of a second, and only once for simultaneous requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from twisted.internet.defer import Deferred

from kapi.machinery.checkpoint import in_slices

Made = TypeVar("Made")


class Making:
    """The documents that are being made, by key."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[Deferred[None]]] = {}

    async def make(self, key: Hashable, find: Callable[[], Made | None], make: Callable[[], Made]) -> Made:
        """Returns what ``find`` finds, else the result of ``make``, which runs once at a time for a key."""
        await in_slices
        while (found := find()) is None:
            waiting = self._waiting.get(key)
            if waiting is not None:
                done: Deferred[None] = Deferred()
                waiting.append(done)
                await done
                continue
            waiting = self._waiting[key] = []
            try:
                return make()
            finally:  # a client that goes cancels its computation; then the next waiting one starts it again
                del self._waiting[key]
                for done in waiting:
                    done.callback(None)
        return found
