"""What Go says of texts that are no addresses."""

from __future__ import annotations

import pytest

from kapi.machinery.netip import address_problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unable to parse IP"),
        ("A-b_C", "unable to parse IP"),
        ("%eth0", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.02.3.4", "IPv4 field has octet with leading zero"),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        (".1.2.3", 'IPv4 field must have at least one digit (at ".1.2.3")'),
        ("1.2.x.4", 'unexpected character (at "x.4")'),
        ("::1%", "zone must be a non-empty string"),
        ("2001:+db8::1", 'each colon-separated field must have at least one digit (at "+db8::1")'),
        (":1", 'each colon-separated field must have at least one digit (at ":1")'),
        ("1:2", "address string too short"),
        ("1:", 'colon must be followed by more characters (at ":")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2x::", 'unexpected character, want colon (at "x::")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4::5:6:7:8", "the :: must expand to at least one field of zeros"),
        ("1:2:1.2.3.4", 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")'),
        ("::1.2.3", "IPv4 address too short"),
        ("255.1.1", "IPv4 address too short"),
        ("::1.2.3.4", "unable to parse IP"),
        ("1::", "unable to parse IP"),
        ("1:1:1:1:1:1:1.2.3.4", "unable to parse IP"),
        ("1::1:1:1:1:1:1.2.3.4", "the :: must expand to at least one field of zeros"),
        (
            "1::1:1:1:1:1:1:1.2.3.4",
            'too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")',
        ),
        ("1:1:1:1:1:1:1:1:1.2.3.4", 'trailing garbage after address (at "1.2.3.4")'),
        ("::0:fFff:256.1.1.1", "IPv4 field has value >255"),
    ],
)
def test_the_first_problem_is_told(text: str, problem: str) -> None:
    assert address_problem(text).endswith(f"): {problem}")
