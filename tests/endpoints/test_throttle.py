"""The limit of a tunnel: bytes a second, whatever the consumer says meanwhile."""

from __future__ import annotations

from twisted.internet.task import Clock

from kapi.endpoints.tunnel import Throttle


class Transport:
    def __init__(self) -> None:
        self.said: list[str] = []

    def pauseProducing(self) -> None:
        self.said.append("pause")

    def resumeProducing(self) -> None:
        self.said.append("resume")

    def stopProducing(self) -> None:
        self.said.append("stop")


def made() -> tuple[Clock, Transport, Throttle]:
    clock, transport = Clock(), Transport()
    return clock, transport, Throttle(transport, 100, clock)


def test_who_sends_too_fast_waits() -> None:
    clock, transport, throttle = made()
    throttle.passed(100)
    throttle.passed(50)  # was on its way
    clock.advance(1.25)
    assert transport.said == ["pause"]
    clock.advance(0.25)
    assert transport.said == ["pause", "resume"]


def test_time_that_was_not_used_is_not_kept() -> None:
    clock, transport, throttle = made()
    clock.advance(60)
    throttle.passed(100)
    clock.advance(0.5)
    assert transport.said == ["pause"]


def test_a_consumer_that_is_full_is_not_overrun() -> None:
    clock, transport, throttle = made()
    throttle.passed(100)
    throttle.pauseProducing()
    clock.advance(5)
    assert transport.said == ["pause", "pause"]
    throttle.resumeProducing()
    assert transport.said[2:] == ["resume"]


def test_a_consumer_that_is_empty_does_not_lift_the_limit() -> None:
    clock, transport, throttle = made()
    throttle.passed(100)
    throttle.pauseProducing()
    throttle.resumeProducing()
    assert "resume" not in transport.said
    clock.advance(1)
    assert transport.said[-1] == "resume"


def test_when_the_other_side_is_gone_there_is_no_limit() -> None:
    clock, transport, throttle = made()
    throttle.passed(100)
    throttle.release()
    throttle.passed(1_000)
    assert transport.said == ["pause", "resume"] and clock.getDelayedCalls() == []


def test_the_end_leaves_no_timer() -> None:
    clock, transport, throttle = made()
    throttle.passed(100)
    throttle.stopProducing()
    assert clock.getDelayedCalls() == [] and transport.said[-1] == "stop"
