"""What works beside requests, by reactor: so that somebody can ask whether all of it is done.

Upstream has nothing like it; tests that wait for controllers do.
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet


class Work(Protocol):
    def busy(self, within: float) -> bool:
        """Whether something is done now, or will be begun within so many seconds."""


_known: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()


def register(reactor: Any, work: Work) -> None:
    """It is known as long as it lives."""
    found = _known.get(reactor)
    if found is None:
        found = _known[reactor] = WeakSet()
    found.add(work)


def busy(reactor: Any, within: float) -> bool:
    """Whether anything on the reactor is."""
    return any(work.busy(within) for work in list(_known.get(reactor, ())))
