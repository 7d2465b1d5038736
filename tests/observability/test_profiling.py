"""Profiles: whose stacks are counted, and in what form they are answered."""

from __future__ import annotations

import gzip
import sys
import threading
from types import FrameType
from typing import Any

from kapi.observability.profiling import Sampler, encode, stack_of
from tests.protobuf_fields import fields


def read(data: bytes) -> dict[int, list[Any]]:
    """Values by field number."""
    found: dict[int, list[Any]] = {}
    for number, _, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def frame() -> FrameType:
    return sys._getframe()


def poll() -> FrameType:
    """Named as what the reactor waits in."""
    return sys._getframe()


def test_what_the_reactor_waits_in_is_no_work() -> None:
    me = threading.get_ident()
    frames = iter([{me: frame()}, {me: poll()}, {}, {me: frame()}])
    sampler = Sampler(me, lambda: next(frames))
    for _ in range(4):
        sampler.look()
    assert sum(sampler.counts.values()) == 2
    assert {stack[0][0].co_name for stack in sampler.counts} == {"frame"}


def test_a_profile_has_samples_locations_functions_and_names() -> None:
    stack = stack_of(frame())
    profile = read(gzip.decompress(encode({stack: 3}, 1000.0, 2.0)))
    names = [bytes(text).decode() for text in profile[6]]
    assert names[:5] == ["", "samples", "count", "cpu", "nanoseconds"]
    (sample,) = profile[2]
    values = read(bytes(sample))
    assert list(bytes(values[2][0])[:1]) == [3], "three samples, and their time behind"
    assert len(profile[4]) == len(set(stack))
    first = read(bytes(profile[5][0]))
    assert names[first[2][0]].endswith("test_profiling.frame") and names[first[4][0]] == __file__
    assert profile[9] == [1_000_000_000_000] and profile[12] == [10_000_000]


def test_a_thread_is_looked_at_until_it_is_told_to_stop() -> None:
    stopped = threading.Event()
    looks = []

    def frames() -> dict[int, FrameType]:
        looks.append(1)
        if len(looks) == 3:
            stopped.set()
        return {1: frame()}

    Sampler(1, frames).run(60.0, stopped)
    assert len(looks) == 3
