"""Ages and durations for people (upstream's duration_test.go)."""

from __future__ import annotations

import pytest

from kapi.machinery.ages import human_duration, since

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-1.9, "0s"), (-1, "0s"), (0, "0s"), (0.9, "0s"), (1, "1s"), (2 * MINUTE - 0.1, "119s"),
        (2 * MINUTE, "2m"), (2 * MINUTE + 1, "2m1s"), (10 * MINUTE - 0.1, "9m59s"), (10 * MINUTE, "10m"),
        (10 * MINUTE + 1, "10m"), (3 * HOUR - 0.1, "179m"), (3 * HOUR, "3h"), (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR - 0.1, "7h59m"), (8 * HOUR, "8h"), (8 * HOUR + 59 * MINUTE, "8h"), (2 * DAY - 0.1, "47h"),
        (2 * DAY, "2d"), (2 * DAY + HOUR, "2d1h"), (8 * DAY - 0.1, "7d23h"), (8 * DAY, "8d"), (8 * DAY + 23 * HOUR, "8d"),
        (2 * YEAR - 0.1, "729d"), (2 * YEAR, "2y"), (2 * YEAR + DAY - 0.1, "2y"), (2 * YEAR + DAY, "2y1d"),
        (3 * YEAR, "3y"), (7 * YEAR, "7y"), (8 * YEAR - 0.1, "7y364d"), (8 * YEAR, "8y"), (8 * YEAR + 364 * DAY, "8y"),
        (9 * YEAR, "9y"),
    ],
)  # fmt: skip
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_an_age_is_that_of_a_time() -> None:
    assert since("2026-01-01T00:00:00Z", 1767225600.0 + 3 * HOUR) == "3h"
    assert since(None, 0.0) == since("", 0.0) == "<unknown>"
