"""Trying again while a server is away (upstream: apiserver ``util/webhook`` WithExponentialBackoff)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

Outcome = TypeVar("Outcome")


class Unavailable(Exception):
    """An attempt that may be repeated: no answer, or one that says "later"."""


async def with_backoff(
    reactor: IReactorTime,
    attempt: Callable[[], Awaitable[Outcome]],
    *,
    delay: float = 0.5,
    factor: float = 1.5,
    attempts: int = 5,
) -> Outcome:
    """The first outcome.  Waits ``delay``, ``delay * factor`` ... seconds between attempts; raises the last failure.

    Only Unavailable is tried again.
    """
    while True:
        attempts -= 1
        try:
            return await attempt()
        except CancelledError:
            raise
        except Unavailable:
            if attempts <= 0:
                raise
        await deferLater(reactor, delay, lambda: None)
        delay *= factor
