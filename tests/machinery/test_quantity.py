"""Quantities: canonical form, what keeps its text, what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.machinery import quantities
from kapi.machinery.quantity import QuantityError, canonical


@pytest.mark.parametrize(
    ("given_text", "stored"),
    [
        ("1000m", "1"), ("0.1", "100m"), ("1e3", "1e3"), ("1.5", "1500m"), (".5", "500m"), ("1E2", "100"),
        ("0.5k", "500"), ("1024Mi", "1Gi"),
        ("1024Ti", "1Pi"), ("1024Pi", "1Ei"), ("1.5Pi", "1536Ti"), ("1.5Gi", "1536Mi"), ("0.5Gi", "512Mi"), ("1000000", "1M"),
        ("1e20", "100e18"), ("9223372036854775807", "9223372036854775807"), ("100000000000", "100G"), ("0", "0"),
        ("0.9765625Ki", "1k"), ("-0.9765625Ki", "-1k"), ("1.0009765625Ki", "1025"), ("1.00048828125Ki", "1024500m"),
        ("0Gi", "0"), ("-1500m", "-1500m"), ("0.0001n", "1n"), ("1Ki", "1Ki"), ("1000Ki", "1000Ki"),
    ],
)  # fmt: skip
def test_a_quantity_takes_its_canonical_form(given_text: str, stored: str) -> None:
    assert canonical(given_text) == str(quantities.parse(given_text)) == stored


@pytest.mark.parametrize(
    ("given_text", "stored"),
    [
        ("100e2", "10e3"), ("2048Pi", "2Ei"), ("1024Ei", "9223372036854775807"), ("8Ei", "9223372036854775807"), (".5M", "500k"),
        (".5T", "500G"), (".5E", "500P"), ("0.0001Gi", "107374182400u"), ("1.0009765625Mi", "1025Ki"), ("1.0Ki", "1Ki"),
        ("0.0000000011Ei", "1268213655067531674n"), ("+100Ti", "100Ti"), ("+8Ki", "8Ki"),
        ("+1234567890123456789", "1234567890123456789"), ("-0.5E", "-500P"), ("1e4096", "10e4095"), ("-0", "0"),
        ("1e0000000005", "100e3"), ("1e+00000000000000000005", "100e3"),
    ],
)  # fmt: skip
def test_further_canonical_forms(given_text: str, stored: str) -> None:
    assert canonical(given_text) == stored


@pytest.mark.parametrize("text", ["1e4097", "1e-4097", "9" * 4097, f"0.{'9' * 4096}"])
def test_amounts_that_would_only_cost_time_are_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        canonical(text)
    canonical("9" * 4096)


@pytest.mark.parametrize(
    "text",
    [
        "+1",
        "001",
        "1.",
        "1e-3",
        "2500m",
        "129M",
        "123Mi",
        "128974848",
        "+10n",
        "+12345Gi",
        "+123456789012345678m",
        "+9Ki",
    ],
)
def test_a_text_that_upstream_takes_for_canonical_stays(text: str) -> None:
    assert canonical(text) == text


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "1gi", "1.2.3", "1Kib", "0x10", "--1", "true", "1e+"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        canonical(text)


@pytest.mark.parametrize(
    ("text", "units", "thousandths"),
    [
        ("1500m", 2, 1500), ("-1500m", -2, -1500), ("0.1m", 1, 1), ("10P", 10**16, 0), ("100E", 0, 0), ("1e100", 0, 0),
        ("10000000000000001", 10**16 + 1, 10**19 + 1000 - 2**64), ("-10000000000000001", -(10**16) - 1, 2**64 - 10**19 - 1000),
        ("7Ei", 7 << 60, ((7 << 60) * 1000 + 2**63) % 2**64 - 2**63),
        ("12345678901234567890", 12345678901234567890 - 2**64, 4807115922877858896),
    ],
)  # fmt: skip
def test_an_overflow_of_an_integer_wraps_around_or_becomes_zero(text: str, units: int, thousandths: int) -> None:
    assert (quantities.ceiling(text), quantities.milli(text)) == (units, thousandths)


def test_a_huge_exponent_costs_nothing() -> None:
    with pytest.raises(QuantityError):
        canonical("1e999999999999")


_SUFFIXES = st.sampled_from(["n", "u", "m", "", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"])


@given(st.integers(-(10**6), 10**6), st.integers(0, 999), _SUFFIXES)
def test_the_canonical_form_has_the_same_value_and_is_stable(whole: int, part: int, suffix: str) -> None:
    text = f"{whole}.{part:03}{suffix}"
    once = canonical(text)
    assert canonical(once) == once
    before, after = quantities.parse(text).value, quantities.parse(once).value
    assert abs(after) - abs(before) < Fraction(1, 10**9)
    assert abs(after) >= abs(before)


def test_a_binary_amount_is_capped_at_the_largest_int64() -> None:
    assert canonical("8388608.0Ti") == "9223372036854775807"
    assert quantities.compare("9Ei", "9223372036854775807") == quantities.compare("-9Ei", "-9223372036854775807") == 0
    assert quantities.compare("10E", "9Ei") == 1


@pytest.mark.parametrize(
    ("text", "shown", "units", "thousandths", "rounded"),
    [
        ("+0.0001Pi", "112589990684262400u", 112589990685, 112589990684263, "112589990684263m"), ("9n", "9n", 1, 1, "1m"),
        ("-.5e-3", "-500e-6", -1, -1, "-1e-3"), (".5P", "500T", 5 * 10**14, 5 * 10**17, ".5P"), ("0G", "0", 0, 0, "0G"),
        ("1.5", "1500m", 2, 1500, "1.5"), ("1.0001", "1000100u", 2, 1001, "1001m"), ("-1.0001", "-1000100u", -2, -1001, "-1001m"),
        ("9223372036854775808m", "9223372036854775808m", 9223372036854776, -(2**63), "9223372036854775808m"),
        ("1234567890123456789E", "1234567890123456789E", 3246728206643101696, 101249670220611584, "1234567890123456789E"),
        ("999999999999999999e1", "9999999999999999990", -8446744073709551626, 0, "999999999999999999e1"),
        ("5e21", "5000e18", 0, 0, "5e21"),
        ("-5Mi", "-5Mi", -5 << 20, -5000 << 20, "-5Mi"), ("1.5Ei", "1536Pi", 3 << 59, -(1 << 62), "1.5Ei"),
        ("99Ei", "9223372036854775807", 2**63 - 1, -1000, "99Ei"), ("-10.0P", "-10P", -(10**16), 0, "-10.0P"),
        ("10000000000000001e3", "10000000000000001e3", -8446744073709550616, 1864712049424024128, "10000000000000001e3"),
        ("999999999999999999e2", "99999999999999999900", 7766279631452241820, 0, "999999999999999999e2"),
        ("999999999999999999e-10", "100e6", 10**8, 10**11, "999999999999999999e-10"), ("1Ti", "1Ti", 1 << 40, 1000 << 40, "1Ti"),
        ("-9E", "-9E", -9 * 10**18, 0, "-9E"),
        ("999999999999999999G", "999999999999999999G", -6930898828444486144, 0, "999999999999999999G"),
    ],
)  # fmt: skip
def test_an_amount_in_units_and_in_thousandths(
    text: str, shown: str, units: int, thousandths: int, rounded: str
) -> None:
    """As Go's Value, MilliValue and RoundUp of these texts."""
    assert str(quantities.parse(text)) == shown
    assert (quantities.ceiling(text), quantities.milli(text)) == (units, thousandths)
    assert quantities.rounded_to_milli(text) == rounded
    assert quantities.is_whole(text) is (thousandths % 1000 == 0)
    assert quantities.sign(text) == (shown != "0") - 2 * (shown[0] == "-")


@pytest.mark.parametrize(
    ("one", "other", "order", "total"),
    [
        ("0", "0", 0, "0"), ("0", "1Ki", -1, "1Ki"), ("0", "0Ki", 0, "0"), ("1Gi", "1024", 1, "1048577Ki"),
        ("1k", "1000", 0, "2k"),
        ("1e3", "1", 1, "1001"), ("1", "1e3", -1, "1001"), ("1500m", "500m", 1, "2"), ("-1", "1n", -1, "-999999999n"),
        ("1Ki", "-1Ki", 1, "0"), ("0", "2e3", -1, "2e3"), ("1m", "1Ki", -1, "1024001m"),
    ],
)  # fmt: skip
def test_two_amounts(one: str, other: str, order: int, total: str) -> None:
    assert (quantities.compare(one, other), quantities.compare(other, one)) == (order, -order)
    assert quantities.add(one, other) == total


@pytest.mark.parametrize("text", ["", "+", "1e", "1mi", "1i", "1" * 5001])
def test_an_amount_that_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        quantities.parse(text)
