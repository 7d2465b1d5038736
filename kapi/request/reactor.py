"""The interfaces of Twisted's reactor that are used: time and threads for requests; sockets and processes for the server.

Only types: the reactor is given to the server when it starts, and a test gives it a clock.
"""

from __future__ import annotations

from typing import cast

from twisted.internet.interfaces import (
    IReactorCore,
    IReactorFDSet,
    IReactorPluggableNameResolver,
    IReactorProcess,
    IReactorSocket,
    IReactorSSL,
    IReactorTCP,
    IReactorThreads,
    IReactorTime,
    IReactorUNIX,
)


class RequestReactor(IReactorTime, IReactorThreads):
    """A monotonic clock, and a pool of threads for work that would block the reactor."""


class Reactor(
    RequestReactor,
    IReactorCore,
    IReactorFDSet,
    IReactorTCP,
    IReactorSSL,
    IReactorUNIX,
    IReactorSocket,
    IReactorProcess,
    IReactorPluggableNameResolver,
):
    """The one reactor of a process."""


def installed_reactor() -> Reactor:
    """The process's reactor, with a type: a type checker sees only Twisted's module."""
    from twisted.internet import reactor

    return cast(Reactor, reactor)
