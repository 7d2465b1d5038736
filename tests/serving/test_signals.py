"""What signals do to a server that is in this process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from kapi.serving.signals import stop_at_signals


class Stopped:
    """A reactor that only notes what it is asked to do in its thread."""

    running = True

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def callFromThread(self, *call: Any) -> None:
        self.calls.append(call)


@pytest.fixture
def handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_a_signal_that_comes_while_the_handlers_are_exchanged_is_a_second_one(handlers: None) -> None:
    again: list[str] = []
    reactor: Any = Stopped()
    stop_at_signals(reactor, lambda: again.append("again"))
    terminate: Any = signal.getsignal(signal.SIGTERM)
    interrupt: Any = signal.getsignal(signal.SIGINT)
    interrupt(signal.SIGINT, None)
    assert (len(reactor.calls), again) == (1, [])
    terminate(signal.SIGTERM, None)
    signal.raise_signal(signal.SIGTERM)
    assert (len(reactor.calls), again) == (1, ["again", "again"])
