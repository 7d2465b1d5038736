"""Warnings of an answer: which are sent, and how long."""

from __future__ import annotations

import pytest

from kapi.machinery import warnings


@pytest.mark.parametrize(
    ("lengths", "sent"),
    [
        ([4000, 96], [4000, 96]),
        ([4000, 97], [256, 97]),
        ([5000], [256]),
        ([180] * 23, [180] * 23),
        ([300] * 14, [256] * 14),
        ([5000] + [10] * 20, [256] + [10] * 20),
        ([300] * 20, [256] * 16),
        ([200] * 21, [200] * 21),
        ([200] * 30, [200] * 21),
    ],
)
def test_warnings_are_shortened_when_they_are_too_long_together(lengths: list[int], sent: list[int]) -> None:
    given: list[str] = []
    for number, length in enumerate(lengths):
        warnings.add(given, f"{number:03}".ljust(length, "x"))
    at_once: list[str] = []
    warnings.add_all(at_once, given)
    assert at_once == given
    assert list(map(len, warnings.fitting(given))) == sent


def test_a_text_with_control_characters_is_not_sent() -> None:
    assert warnings.fitting(["a\nb", "é\u2028", "a\x85", "\x7f", "b"]) == ["é\u2028", "b"]
