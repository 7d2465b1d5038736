"""What the server asks of Twisted's reactor: for a request time and threads, for itself sockets, names and programs, too.

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
    """Time by a monotonic clock, and a pool of threads for what would hold up the others."""


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
    """What a process has one of."""


def installed_reactor() -> Reactor:
    """The process's reactor.  Its module is all that type checkers know of it."""
    from twisted.internet import reactor

    return cast(Reactor, reactor)
