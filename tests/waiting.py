"""Waiting for what another process, thread or connection does, where no event tells of it: one bound for all tests.

The bound is for a server that does nothing any more, not for a slow one: a machine with other work takes many times longer.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor, tcp
from twisted.internet.task import deferLater

MAX_WAIT = 120.0  # seconds; below the time-outs of tests (tests/conftest.py)
_FIRST, _LAST = (
    0.005,
    0.1,
)  # seconds between two looks, which grow: what takes long is not looked at a hundred times a second


def until(condition: Callable[[], Any], seconds: float = MAX_WAIT, state: Callable[[], object] | None = None) -> Any:
    """The first true value.  Fails when none comes in time, with ``state()`` as it is then."""
    end, pause = time.monotonic() + seconds, _FIRST
    while not (found := condition()):
        if time.monotonic() >= end:
            raise AssertionError(f"it did not happen in {seconds:.0f} s: {state() if state else ''}")
        time.sleep(pause)
        pause = min(_LAST, 1.5 * pause)
    return found


async def eventually(condition: Callable[[], Any], seconds: float = MAX_WAIT) -> Any:
    """The same, while the reactor goes on."""
    end, pause = time.monotonic() + seconds, _FIRST
    while not (found := condition()):
        assert time.monotonic() < end, f"it did not happen in {seconds:.0f} s"
        await deferLater(reactor, pause)  # type: ignore[arg-type]
        pause = min(_LAST, 1.5 * pause)
    return found


async def accepted_ended() -> None:
    """Until the reactor has no accepted connections any more: their ends follow those of their clients."""
    readers: Any = reactor
    await eventually(lambda: not any(isinstance(each, tcp.Server) for each in readers.getReaders()))


def lines_until(process: subprocess.Popen[str], mark: str) -> list[str]:
    """The lines of a process up to one with ``mark``.  Fails with what it has said when it ends before."""
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if mark in line:
            return said
    raise AssertionError("".join(said)[-3000:])
