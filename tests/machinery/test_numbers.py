"""Numbers in text are what Go's strconv takes for numbers."""

from __future__ import annotations

import pytest

from kapi.machinery.numbers import NumberError, float_text, parse_int, parse_uint

NOT_ASCII = ["²", "٣", "１", "1_0", " 1", "1 ", "1\n", "", "+", "0x1", "1.0", "1e3", "−1"]


@pytest.mark.parametrize("text", NOT_ASCII)
def test_what_is_no_number(text: str) -> None:
    for parse in (parse_int, parse_uint):
        with pytest.raises(NumberError, match="invalid syntax"):
            parse(text)


@pytest.mark.parametrize("text", ["9" * 19, "9" * 5000, "1" + "0" * 20])
def test_what_is_too_large(text: str) -> None:
    with pytest.raises(NumberError, match="value out of range"):
        parse_int(text)
    with pytest.raises(NumberError, match="value out of range"):
        parse_uint(text + "9")


def test_zeros_in_front_count_for_nothing() -> None:
    assert parse_int("-" + "0" * 9000 + "7") == -7
    assert parse_uint("0" * 9000) == 0


def test_the_limits() -> None:
    assert (parse_int(str(-(1 << 63))), parse_int(f"+{(1 << 63) - 1}")) == (-(1 << 63), (1 << 63) - 1)
    assert parse_uint(str((1 << 64) - 1)) == (1 << 64) - 1
    assert parse_uint("65535", 16) == 65535
    for text, bits in (("65536", 16), (str(1 << 64), 64)):
        with pytest.raises(NumberError):
            parse_uint(text, bits)
    with pytest.raises(NumberError):
        parse_uint("+1")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e5, "100000"), (1e6, "1e+06"), (999999.0, "999999"), (1234567.5, "1.2345675e+06"), (100000.5, "100000.5"),
        (9223372036854775808.0, "9.223372036854776e+18"), (0.0001, "0.0001"), (0.00001, "1e-05"), (-2.5e-7, "-2.5e-07"),
        (1.5e300, "1.5e+300"), (0.0, "0"), (-0.0, "-0"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_floats_as_go_prints_them(value: float, text: str) -> None:
    assert float_text(value) == text
