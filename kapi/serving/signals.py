"""Signal handlers, and stopping the reactor."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

from twisted.internet.error import ReactorNotRunning
from twisted.logger import Logger

from kapi.process.reactor import Reactor

log = Logger()
_ENDING = (signal.SIGTERM, signal.SIGINT)


def on_signal(number: int, action: Callable[[], object]) -> None:
    """Calls ``action`` from the signal's handler.  Does nothing outside of the main thread (an embedded server)."""
    try:
        signal.signal(number, lambda *_: action())
    except ValueError:
        pass  # not the main thread


def stop_at_signals(reactor: Reactor, again: Callable[[], object]) -> None:
    """SIGTERM or SIGINT stops the reactor, which runs; every one after it calls ``again`` from the signal's handler.

    Twisted's own handlers stop it once more for each, which fails.  What is ignored stays so.
    """

    def begin(number: signal.Signals) -> None:
        log.info("Received {signal}, shutting down.", signal=number.name)
        stop_reactor(reactor)

    stopping = False

    def stop(number: signal.Signals) -> None:
        nonlocal stopping
        if stopping:  # another thread received it while the handlers were exchanged
            again()
            return
        stopping = True
        leave_at_signals(again)
        reactor.callFromThread(begin, number)  # a line of the log may be half written now

    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            on_signal(number, partial(stop, number))


def leave_at_signals(action: Callable[[], object]) -> None:
    """From now on SIGTERM and SIGINT call ``action`` from the signal's handler.  What is ignored stays so."""
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            on_signal(number, action)


def stop_reactor(reactor: Reactor) -> None:
    """Stops the reactor now, or as soon as it runs.  Does nothing when it is stopping already."""
    if not reactor.running:
        reactor.callWhenRunning(stop_reactor, reactor)
        return
    try:
        reactor.stop()
    except ReactorNotRunning:
        pass
