"""Times as Go reads them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.machinery import time
from kapi.machinery.time import lasting, seconds_of


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2020-01-01T10:00:00.5+02:00", "2020-01-01T08:00:00Z"),
        ("2020-12-31T23:30:00-01:00", "2021-01-01T00:30:00Z"),
        ("2020-01-01T1:00:00Z", "2020-01-01T01:00:00Z"),
        ("0000-02-29T00:00:00Z", "0000-02-29T00:00:00Z"),
        ("0000-01-01T00:30:00+01:00", "-0001-12-31T23:30:00Z"),
        ("9999-12-31T23:30:00-01:00", "10000-01-01T00:30:00Z"),
    ],
)
def test_a_time_is_answered_in_utc_and_whole_seconds(text: str, stored: str) -> None:
    assert time.time(text) == stored
    micros = text.replace(".5", "").replace("T1:", "T01:")
    micros = f"{micros[:19]}.250000{micros[19:]}"
    assert time.micro_time(micros) == f"{stored[:-1]}.250000Z"
    assert time.unix_of(stored) == (seconds_of(stored), 0)
    assert time.unix_of(f"{stored[:-1]}.250000Z") == (seconds_of(stored), 250_000)


def test_the_zero_time_is_null() -> None:
    assert time.time("0001-01-01T00:00:00Z") is None
    assert time.micro_time("0001-01-01T00:00:00.000000Z") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("yesterday", 'as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"'),
        ("2020-01-01", 'cannot parse "" as "T"'),
        ("2020-13-01T00:00:00Z", "month out of range"),
        ("2020-02-30T00:00:00Z", "day out of range"),
        ("1900-02-29T00:00:00Z", "day out of range"),
        ("2020-01-00T00:00:00Z", "day out of range"),
        ("10000-01-01T00:30:00Z", 'cannot parse "0-01-01T00:30:00Z" as "-"'),
        ("-0001-12-31T23:30:00Z", 'as "2006"'),
        ("2020-01-01T00:00:00Zx", 'extra text: "x"'),
        ("", 'cannot parse "" as "2006"'),
    ],
)
def test_what_is_no_time_is_refused_with_gos_words(text: str, why: str) -> None:
    with pytest.raises(time.TimeError, match=f'^parsing time "{text}"') as caught:
        time.time(text)
    assert why in str(caught.value)


LAYOUT = 'as "2006-01-02T15:04:05.000000Z07:00": cannot parse'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2020-01-01T00:00:00Z", f'{LAYOUT} "Z" as ".000000"'),
        ("2020-01-01T00:00:00.12345Z", f'{LAYOUT} ".12345Z" as ".000000"'),
        ("2020-01-01T00:00:00.1234567Z", f'{LAYOUT} "7Z" as "Z07:00"'), ("2020-01-01T00:00:00", f'{LAYOUT} "" as ".000000"'),
        ("2020-13-01T25:00:00Z", "month out of range"), ("2020-01-01T25:60:00Z", "hour out of range"),
        ("2020-01-01T23:60:60", "minute out of range"), ("2020-01-01T23:59:60Z", "second out of range"),
        ("2020-02-30T00:00:00Z", f'{LAYOUT} "Z" as ".000000"'), ("2020-02-30T00:00:00.000000Z", "day out of range"),
    ],
)  # fmt: skip
def test_micro_times_are_read_element_by_element(text: str, why: str) -> None:
    with pytest.raises(time.TimeError) as caught:
        time.micro_time(text)
    assert str(caught.value) == f'parsing time "{text}"{" " if why.startswith("as") else ": "}{why}'


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2020-01-01T1:02:03.000001Z", "2020-01-01T01:02:03.000001Z"),  # an hour of one digit
        ("2020-01-01T1:02:03.250000-01:30", "2020-01-01T02:32:03.250000Z"),
        ("2020-01-01T23:59:59.999999+24:60", "2019-12-31T22:59:59.999999Z"),
        ("0001-01-01T00:00:00.000001Z", "0001-01-01T00:00:00.000001Z"),
    ],
)
def test_micro_times(text: str, stored: str) -> None:
    assert time.micro_time(text) == stored


@pytest.mark.parametrize(
    ("zone", "stored"),
    [
        ("+00:00", "12:34:56"), ("-00:00", "12:34:56"), ("+12:34", "00:00:56"), ("-10:21", "22:55:56"), ("+01:59", "10:35:56"),
        ("-11:25", "23:59:56"), ("+11:60", "00:34:56"),
    ],
)  # fmt: skip
def test_zones(zone: str, stored: str) -> None:
    assert time.time(f"2020-01-02T12:34:56{zone}") == f"2020-01-02T{stored}Z"
    assert seconds_of(f"2020-01-02T12:34:56{zone}") == seconds_of(f"2020-01-02T{stored}Z")


@pytest.mark.parametrize(
    ("zone", "why"), [("+25:00", "hour"), ("-25:61", "hour"), ("+24:61", "minute"), ("-00:99", "minute")]
)
def test_zones_that_there_are_not(zone: str, why: str) -> None:
    with pytest.raises(time.TimeError, match=f"time zone offset {why} out of range$"):
        time.time(f"2020-01-02T12:34:56{zone}")


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(2, 1, 1)))
def test_what_is_written_is_read_again(moment: datetime) -> None:
    seconds = f"{time.format_micros(moment)[:19]}Z"
    assert time.time(seconds) == seconds
    assert time.micro_time(time.format_micros(moment)) == time.format_micros(moment)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T00:01:00.25Z", 60.25),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1969-12-31T23:31:00.5-00:30", 60.5),
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("0001-01-01T00:00:00Z", float(time.ZERO_SECONDS)),
    ],
)
def test_seconds_of_a_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of(time.of_unix(int(seconds)) + "Z") == int(seconds)


@pytest.mark.parametrize("seconds", [253_402_300_800, 10**15, -62_167_219_201, -(10**12), 951_782_400])
def test_seconds_of_a_time_in_any_year(seconds: int) -> None:
    """Protobuf can hold times whose years do not have four digits."""
    assert seconds_of(time.of_unix(seconds) + "Z") == seconds


@pytest.mark.parametrize(
    "text", ["yesterday", "2023-13-01T00:00:00Z", "2023-02-30T00:00:00Z", "2023-11-14 22:13:20", ""]
)
def test_seconds_of_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "kept"), [(30, 30), (-1, -1), (9_223_372_036, 9_223_372_036), (2**63 - 1, -1), (2**64, 0)]
)
def test_a_duration_wraps_around(seconds: int, kept: int) -> None:
    assert lasting(seconds) == kept


@pytest.mark.parametrize(
    ("text", "shown"), [("\\", r'"\\"'), ('2"', r'"2\""'), ("\u00e9\n \x7f", '"\\xc3\\xa9\\x0a \x7f"'), ("2x", '"2x"')]
)
def test_a_text_that_is_no_time_is_quoted_as_gos_time_package_does(text: str, shown: str) -> None:
    with pytest.raises(time.TimeError) as caught:
        time.time(text)
    assert str(caught.value).startswith(f"parsing time {shown} as ")
