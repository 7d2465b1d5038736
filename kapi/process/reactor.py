"""The process's reactor: the interfaces that kapi uses of it, and every change to it.

The reactor is passed to the server when it starts; a test passes a clock.  Changes are made to Twisted's objects, in part to
private attributes, so all are in this file:

* ``installed_reactor``: where the system has kqueue and nothing is installed yet, that reactor.  Twisted's default there is
  select, with its limit of 1,024 sockets.
* ``use_monotonic_clock``: timers do not follow the time of day.
* ``watch_polls``: each poll of the sockets is measured, and returns a bounded number of them.
* ``accept_some``, ``accept_one``: a port accepts a bounded number of connections in one turn.
* ``end_with_zero``: a process that was stopped by a signal ends with 0.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

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

Changed = Any  # an object of Twisted whose private attributes are changed
MAX_SOCKETS = 128  # returned by one poll: a thousand connections that end at once would make a turn of 50 ms
MAX_ACCEPTS = 16  # connections accepted in one turn of the reactor: each costs 0.1 ms


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
    if hasattr(select, "kqueue") and "twisted.internet.reactor" not in sys.modules:  # macOS, the BSDs
        from twisted.internet import kqreactor

        kqreactor.install()
    from twisted.internet import reactor

    return cast(Reactor, reactor)


def use_monotonic_clock(reactor: Changed) -> None:
    """Makes timers independent of the time of day.  Called before the reactor runs.

    Twisted's reactor keeps its timers in Unix seconds: after a step back no timer would fire until the clock has caught up,
    after a step forward all would fire at once.  So ``reactor.seconds()`` measures durations only; the time of day is
    ``time.time``.  Calls that were scheduled before (twistd does that) keep their remaining time.
    """
    before = reactor.seconds
    if before is time.monotonic or not hasattr(reactor, "getDelayedCalls"):
        return
    shift = time.monotonic() - before()
    planned = reactor.getDelayedCalls()
    reactor.seconds = time.monotonic
    for call in planned:
        call.time += shift
        call.seconds = time.monotonic


class PollWatcher(Protocol):
    """Gets the lengths of the reactor's turns, from one poll to the next."""

    timer: Callable[[], float]
    shortest: float  # seconds; shorter turns are not reported
    busy_since: float  # when the turn began, in seconds of the timer; 0 during a poll

    def ended(self, now: float) -> None:
        """Called at the end of a turn that took ``shortest`` or longer."""


def watch_polls(reactor: Changed, watcher: PollWatcher) -> bool:
    """Measures a reactor with epoll, poll or kqueue.  Returns False for select, which stays as it is."""
    if (poller := getattr(reactor, "_poller", None)) is not None:
        reactor._poller = _WatchedPoller(poller, watcher)
    elif (queue := getattr(reactor, "_kq", None)) is not None:
        reactor._kq = _WatchedQueue(queue, watcher)
    else:
        return False
    return True


def _measured(poll: Callable[..., object], watcher: PollWatcher) -> Callable[..., object]:
    timer = watcher.timer

    def measured(*arguments: object) -> object:
        now = timer()
        if now - watcher.busy_since >= watcher.shortest:
            watcher.ended(now)
        watcher.busy_since = 0.0
        try:
            return poll(*arguments)
        finally:
            watcher.busy_since = timer()

    return measured


class _WatchedPoller:
    """Wraps the epoll object of the reactor; the kernel returns the sockets beyond ``MAX_SOCKETS`` with the next polls.

    It also wraps a poll object, which takes no limit of sockets.
    """

    def __init__(self, poller: Changed, watcher: PollWatcher) -> None:
        self.register, self.modify, self.unregister = poller.register, poller.modify, poller.unregister
        self._poll = _measured(poller.poll, watcher)

    def poll(self, timeout: float, *events: int) -> object:
        if not events:
            return self._poll(timeout)
        return self._poll(timeout, min(events[0], MAX_SOCKETS))


class _WatchedQueue:
    """Wraps the kqueue object of the reactor, in the same way."""

    def __init__(self, queue: Changed, watcher: PollWatcher) -> None:
        self.close = queue.close
        self._change = queue.control
        self._poll = _measured(queue.control, watcher)

    def control(self, changes: object, events: int, timeout: float | None = None) -> object:
        """As kqueue's method; a call that asks for no events does not wait."""
        if not events:
            return self._change(changes, 0, timeout)
        return self._poll(changes, min(events, MAX_SOCKETS), timeout)


def accept_some(port: Changed) -> None:
    """Lets a port accept at most ``MAX_ACCEPTS`` connections at once.  Twisted raises its own number while more are waiting."""
    accept = port.doRead

    def do_read() -> None:
        port.numberAccepts = min(port.numberAccepts, MAX_ACCEPTS)
        accept()

    port.doRead = do_read


def accept_one(port: Changed, then: Callable[[], object]) -> None:
    """Lets a port accept one connection, then stop reading and call ``then``."""
    accept = port.doRead

    def do_read() -> None:
        port.numberAccepts = 1
        accept()
        port.stopReading()
        then()

    port.doRead = do_read


def end_with_zero(reactor: Changed) -> None:
    """Lets a clean stop end with exit code 0: twistd would end the process by the signal that stopped it."""
    reactor._exitSignal = None
