"""Numbers in text are what Go's strconv takes for numbers."""

from __future__ import annotations

import pytest

from kapi.machinery.numbers import NumberError, parse_int, parse_uint

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
