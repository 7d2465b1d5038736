"""Values at the edges of their types, as cel-go and Go's strconv treat them."""

from __future__ import annotations

import math

import pytest

from kapi.cel import Environment, EvaluationError, types
from kapi.cel.library.maths import MATH
from kapi.schema.structural import formats

ENV = Environment({"x": types.DYN})


@pytest.mark.parametrize("expression", ["[1, 2][x]", "[1, 2][?x].hasValue()", "optional.of([1])[?x].hasValue()"])
@pytest.mark.parametrize(("value", "shown"), [(math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (1.5, "1.5")])
def test_only_whole_doubles_are_indices(expression: str, value: float, shown: str) -> None:
    with pytest.raises(EvaluationError, match=rf"unsupported index value {shown.replace('+', '[+]')} in list"):
        ENV.compile(expression).evaluate({"x": value})


def test_a_whole_double_is_an_index() -> None:
    assert ENV.compile("[1, 2][x]").evaluate({"x": 1.0}) == 2


@pytest.mark.parametrize("text", ["\u0663", "1e400", "-1e400", "+nan", "1_0", " 1", "", "1e", ".", "0x"])
def test_texts_that_are_no_doubles(text: str) -> None:
    with pytest.raises(EvaluationError, match="type conversion error from 'string' to 'double'"):
        ENV.compile("double(x)").evaluate({"x": text})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-1.5e3", -1500.0),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("Inf", math.inf),
        ("-infinity", -math.inf),
        ("1e-400", 0.0),
    ],
)
def test_texts_that_are_doubles(text: str, value: float) -> None:
    assert ENV.compile("double(x)").evaluate({"x": text}) == value


def test_a_time_beyond_the_range_of_timestamps_is_still_a_date_time() -> None:
    text = "0001-01-01T00:00:00+01:00"
    assert formats.valid("date-time", text)
    assert not ENV.compile("format.datetime().validate(x).hasValue()").evaluate({"x": text})
    with pytest.raises(EvaluationError, match="timestamp overflow"):
        ENV.compile("timestamp(x)").evaluate({"x": text})


@pytest.mark.parametrize(
    ("format_", "value", "text"),
    [
        ("%f", 1e22, "10,000,000,000,000,000,000,000.000000"),
        ("%.1f", 1e23, "99,999,999,999,999,991,611,392.0"),
        ("%.0f", 2.5, "2"),
        ("%.2f", 1.005, "1.00"),
        ("%.25f", 0.1, "0.1000000000000000055511151"),
        ("%.1f", -0.05, "-0.1"),
    ],
)
def test_doubles_of_any_size_are_formatted(format_: str, value: float, text: str) -> None:
    assert ENV.compile(f"'{format_}'.format([x])").evaluate({"x": value}) == text


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.49999999999999994, 0.0), (4503599627370497.0, 4503599627370497.0), (-2.5, -3.0), (2.5, 3.0)],
)
def test_rounding_is_exact(value: float, rounded: float) -> None:
    (overload,) = [each for each in MATH if each.function == "math.round"]
    assert overload.impl is not None
    assert overload.impl(value) == rounded
