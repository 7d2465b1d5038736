"""The clock of all timers: the monotonic one, which goes on evenly when somebody sets the time of day.

Twisted's reactor keeps its timers in unix seconds. After a step back none of them would fire until the time is caught up
with, after a step forward all that wait would fire at once. ``reactor.seconds()`` therefore says how long things take and
never what time it is; for the time of day there is ``time.time``.
"""

from __future__ import annotations

import time
from typing import Any


def use_monotonic_clock(reactor: Any) -> None:
    """Before the reactor runs. Calls that were planned already (twistd does) keep the time that is left to them."""
    before = reactor.seconds
    if before is time.monotonic or not hasattr(reactor, "getDelayedCalls"):
        return
    shift = time.monotonic() - before()
    planned = reactor.getDelayedCalls()
    reactor.seconds = time.monotonic
    for call in planned:
        call.time += shift
        call.seconds = time.monotonic
