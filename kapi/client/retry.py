"""Trying again while a server is away (upstream: apiserver ``util/webhook`` WithExponentialBackoff)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

Outcome = TypeVar("Outcome")
_MAX_ATTEMPTS = 5
_FACTOR = 1.5  # by which each wait is longer than the one before


class Unavailable(Exception):
    """An attempt that may be repeated: no answer, or one that says "later"."""


async def with_backoff(
    reactor: IReactorTime,
    attempt: Callable[[], Awaitable[Outcome]],
    *,
    delay: float,
) -> Outcome:
    """The result of the first attempt that succeeds.  Between attempts it waits ``delay`` seconds, then 1.5 times as long ...

    Only Unavailable is tried again; the error of the last attempt is raised.
    """
    for attempts_left in reversed(range(_MAX_ATTEMPTS)):
        try:
            return await attempt()
        except CancelledError:
            raise
        except Unavailable:
            if not attempts_left:
                raise
        await deferLater(reactor, delay, lambda: None)
        delay *= _FACTOR
    raise AssertionError("the last attempt returns or raises")
