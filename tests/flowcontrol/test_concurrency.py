"""How many requests of a kind run or wait is weighted by the time that they do."""

from __future__ import annotations

from twisted.internet.task import Clock

from kapi.flowcontrol.concurrency import Concurrency


def observed(concurrency: Concurrency, suffix: str, **labels: str) -> dict[str, float]:
    """Values by their upper bound."""
    (family,) = concurrency.collect()
    return {
        sample.labels.get("le", ""): sample.value
        for sample in family.samples
        if sample.name.endswith(suffix) and all(sample.labels[key] == value for key, value in labels.items())
    }


def test_seconds_count_by_the_share_of_the_limit() -> None:
    clock = Clock()
    clock.advance(100)
    concurrency = Concurrency(limit=10)
    concurrency.seconds = clock.seconds
    running = concurrency.executing["readOnly"]
    running.change(1, clock.seconds())
    clock.advance(2)
    running.change(1, clock.seconds())
    concurrency.wait("readOnly", clock.seconds())
    clock.advance(3)
    concurrency.resume("readOnly", clock.seconds())
    clock.advance(1)
    found = observed(concurrency, "_bucket", phase="executing", request_kind="readOnly")
    assert (found["0.01"], found["0.1"], found["0.2"]) == (0, 5e9, 6e9)
    assert observed(concurrency, "_sum", phase="executing", request_kind="readOnly") == {"": 0.1 * 5e9 + 0.2 * 1e9}
    waited = observed(concurrency, "_bucket", phase="waiting", request_kind="readOnly")
    assert (waited["0.01"], waited["0.1"]) == (1e9, 4e9)
    assert observed(concurrency, "_count", phase="executing", request_kind="mutating") == {"": 0}


def test_a_request_that_came_before_another_ended_takes_no_time_back() -> None:
    concurrency = Concurrency(limit=10)
    running = concurrency.executing["mutating"]
    running.change(1, 10.0)
    running.change(-1, 12.0)
    running.change(1, 11.0)  # received before the other one was answered, looked at after it
    running.change(-1, 13.0)
    assert (running.seconds, running.now) == ([0.0, 3.0], 0)
