"""Turns of a reactor that is a Clock, one at a time."""

from __future__ import annotations

from twisted.internet.task import Clock


def one_turn(clock: Clock) -> None:
    """What is due now; what is scheduled meanwhile is for the next turn, unlike with ``advance``."""
    now = clock.seconds()
    due = [call for call in clock.calls if call.getTime() <= now]
    clock.calls = [call for call in clock.calls if call.getTime() > now]
    for call in due:
        call.called = 1
        call.func(*call.args, **call.kw)
