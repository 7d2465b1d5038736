"""Durations in protobuf, in the form in which Go writes them."""

from __future__ import annotations

import pytest

from kapi.schema import protobuf, protobuf_writing


@pytest.mark.parametrize(
    "text",
    [
        "0s", "1ns", "999ns", "1µs", "1.5µs", "999.999µs", "1ms", "1.000001ms", "999.999999ms", "1s", "1.5s", "59.999999999s",
        "1m0s", "1m1s", "59m59s", "1h0m0s", "1h0m1s", "2h45m0s", "100h1m0.5s", "-1ns", "-1.5s", "-2h0m0s",
    ],
)  # fmt: skip
def test_a_duration_is_read_as_it_was_written(text: str) -> None:
    assert protobuf._duration(protobuf_writing._duration(text), 0) == text


def test_parts_of_a_time_that_are_not_sent_are_zero() -> None:
    seconds, nanos = b"\x08\x05", b"\x10\x07"
    assert [protobuf._moment(sent) for sent in (b"", seconds, nanos, seconds + nanos)] == [None, (5, 0), (0, 7), (5, 7)]
    assert protobuf._duration(b"", 0) == "0s"
    assert (protobuf._quantity(b"", 0), protobuf._int_or_string(b"", 0), protobuf._int_or_string(b"\x08\x01", 0)) == (
        "0",
        0,
        "",
    )
