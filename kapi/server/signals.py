"""Signals of the process, and the end that it makes of itself."""

from __future__ import annotations

import signal
from collections.abc import Callable

from kapi.request.reactor import Reactor


def on_signal(number: int, action: Callable[[], object]) -> None:
    """Calls ``action`` from the signal's handler; not where the server is embedded, in another thread than the main one."""
    try:
        signal.signal(number, lambda *_: action())
    except ValueError:
        pass  # not the main thread


def stop_reactor(reactor: Reactor) -> None:
    """Now, or as soon as it runs."""
    if reactor.running:
        reactor.stop()
    else:
        reactor.callWhenRunning(reactor.stop)
