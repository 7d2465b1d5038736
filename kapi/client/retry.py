"""Asking a webhook again (upstream: apiserver ``util/webhook`` WithExponentialBackoff, DefaultShouldRetry)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from kapi.machinery.status import StatusError

Outcome = TypeVar("Outcome")
_MAX_ATTEMPTS = 5
_PASSING = frozenset(["InternalError", "Timeout", "TooManyRequests", "ServerTimeout"])
_FACTOR = 1.5  # between each wait and the next one


class Unavailable(Exception):
    """An attempt that may be repeated."""


def is_passing(failed: Exception) -> bool:
    """Whether another attempt may succeed: after 429 and errors of the server, and when the connection was reset.

    A webhook that cannot be reached, or that answers 503 without a Retry-After, is not asked again: who waits for its judgement
    would wait for all attempts.
    """
    if isinstance(failed, StatusError):
        return failed.reason in _PASSING or failed.code == 429 or failed.retry_after > 0
    return isinstance(failed, ConnectionLost)


async def with_backoff(reactor: IReactorTime, attempt: Callable[[], Awaitable[Outcome]], *, delay: float) -> Outcome:
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
