"""The type of a function that runs long computations, in place of Twisted's ``execute``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from twisted.internet.defer import Deferred

Result = TypeVar("Result")


class Call(Protocol):
    """Runs a function with arguments, in slices (``kapi.scheduling.slices``) or, as Twisted's ``execute``, in one piece."""

    def __call__(self, function: Callable[..., Result], /, *arguments: object) -> Deferred[Result]: ...
