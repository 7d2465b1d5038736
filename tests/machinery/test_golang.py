"""Texts are parsed and printed as Go's standard library does."""

from __future__ import annotations

import pytest

from kapi.machinery.golang import (
    STANDARD,
    URL_SAFE,
    NumberError,
    aggregate,
    base64_bytes,
    duration_text,
    float32_text,
    float_json,
    float_text,
    nanoseconds,
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_literal,
    parse_uint,
    syntax,
)

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
    for text in ("+1", str(1 << 64)):
        with pytest.raises(NumberError):
            parse_uint(text)


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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("6443", 6443),
        ("6_443", 6443),
        ("0x1F", 31),
        ("010", 8),
        ("0o17", 15),
        ("0b101", 5),
        ("-1", -1),
        ("+7", 7),
        ("0", 0),
    ],
)
def test_literals_have_a_base(text: str, value: int) -> None:
    assert parse_literal(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (1 / 3, "0.33333334"), (1e16, "1e+16"), (3.4028234e38, "3.4028235e+38"), (3.5e38, "+Inf"), (-1e39, "-Inf"),
        (1e-45, "1e-45"), (1e-46, "0"), (-0.0, "-0"), (16777217.0, "1.6777216e+07"), (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_floats_of_32_bits_have_their_own_shortest_digits(value: float, text: str) -> None:
    assert float32_text(value) == text


def test_the_syntax_of_values() -> None:
    tree = {"b": [1, "x\n", None, True, 1.5e6], "a": {}}
    shown = '{"a":map[string]interface {}{}, "b":[]interface {}{1, "x\\n", interface {}(nil), true, 1.5e+06}}'
    assert syntax(tree) == "map[string]interface {}" + shown


@pytest.mark.parametrize("text", ["", "x", "1 ", "\u0663", "6__443", "_1", "1_", "08", "0x", "1.0", "--1", "1" * 5000])
def test_what_is_no_literal(text: str) -> None:
    with pytest.raises(NumberError, match="strconv.ParseInt: parsing .*: (invalid syntax|value out of range)"):
        parse_literal(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e18, "1000000000000000000"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (-1.5e300, "-1.5e+300"),
        (1e-6, "0.000001"), (1.5e-7, "1.5e-7"), (5e-324, "5e-324"), (0.1, "0.1"), (3.0, "3"), (0.0, "0"),
        (9223372036854775808.0, "9223372036854776000"),
    ],
)  # fmt: skip
def test_floats_in_json(value: float, text: str) -> None:
    assert float_json(value) == text


def test_floats_and_bools() -> None:
    assert (parse_float("1e3"), parse_float(".5"), parse_float("+Inf"), parse_bool("T")) == (
        1000.0,
        0.5,
        float("inf"),
        True,
    )
    for text in ("1_0", " 1", "1f", ""):
        with pytest.raises(NumberError, match="strconv.ParseFloat: parsing"):
            parse_float(text)
    with pytest.raises(NumberError, match="out of range"):
        parse_float("1e999")
    with pytest.raises(NumberError, match='strconv.ParseBool: parsing "yes": invalid syntax'):
        parse_bool("yes")


@pytest.mark.parametrize(
    "text",
    [
        "1h0m0s", "2s", "250ms", "1m30s", "0s", "36h0m0s", "1ns", "999ns", "1µs", "1.5µs", "999.999µs", "1ms", "999.999999ms",
        "1s", "1.000000001s", "59.5s", "1m0s", "59m59.999s", "1h1m1.001001001s", "-1ns", "-1h0m0.5s",
    ],
)  # fmt: skip
def test_durations_are_printed_as_they_are_parsed(text: str) -> None:
    assert duration_text(parse_duration(text)) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1.5h", 5_400_000_000_000), (".5s", 500_000_000), ("1.s", 1_000_000_000), ("1.9999999999ns", 1),
        ("0.1us0.1us", 200), ("-2.0000000019s", -2_000_000_001), ("1h1m1.001s", 3_661_001_000_000),
        ("0", 0), ("-0", 0), ("+0", 0), ("+1s", 1_000_000_000), ("1h1m1s1ms1µs1μs1us1ns", 3_661_001_003_001),
        ("9223372036854775807ns", 2**63 - 1), ("-9223372036854775808ns", -(2**63)), ("2562047h47m16.854775807s", 2**63 - 1),
    ],
)  # fmt: skip
def test_parts_of_a_nanosecond_are_cut_off(text: str, wanted: int) -> None:
    assert nanoseconds(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, 'invalid duration "{}"') for text in (".s", "s", "", "-", "9223372036854775808ns", "-9223372036854775809ns")),
        *((text, 'missing unit in duration "{}"') for text in ("1.5", "1h1", "00")),
        ("1.5x", 'unknown unit "x" in duration "{}"'), ("1 s", 'unknown unit " s" in duration "{}"'),
    ],
)  # fmt: skip
def test_malformed_durations(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        nanoseconds(text)
    assert str(caught.value) == f"time: {why.format(text)}"


def test_errors_are_told_once() -> None:
    assert aggregate([]) == ""
    assert aggregate(["a", "a"]) == "a"
    assert aggregate(["a", "b", "a"]) == "[a, b]"


@pytest.mark.parametrize(
    ("text", "standard", "url_safe"),
    [
        ("", None, None), ("YQ==", None, 2), ("YR==", None, 2), ("YW\nJ\r\nj\n", None, None),
        ("YQ", 0, None), ("Y", 0, 0), ("\nYQ\n", 2, None), ("YWJj!", 4, 4),
        ("YWé!", 2, 2), ("=QAA", 0, 0), ("Y=QA", 1, 1), ("YQ=", 3, 2),
        ("YQ=\n", 4, 2), ("YQ\n=A", 3, 3), ("YQ=\n=\n", None, 2), ("YQ==\nYQ==", 5, 2),
        ("YWI=YQ==", 4, 3), ("YWI=\n", None, 3), ("YWJj=", 4, 4), ("YWJjY=", 5, 5),
        ("-_-_", 0, None), ("+/+/", None, 0), ("YWJj====", 4, 4), ("YWJj===\r=", 4, 4), ("YWJj========", 4, 4),
    ],
)  # fmt: skip
def test_base64_is_wrong_where_gos_decoder_says(text: str, standard: int | None, url_safe: int | None) -> None:
    for last, place in ((STANDARD, standard), (URL_SAFE, url_safe)):
        if place is None:
            base64_bytes(text, last)
            continue
        with pytest.raises(ValueError, match=rf"\Aillegal base64 data at input byte {place}\Z"):
            base64_bytes(text, last)
