"""What a connection failed with, as Go says it."""

from __future__ import annotations

import re

import pytest
from OpenSSL import SSL
from service_identity import VerificationError
from service_identity.exceptions import DNSMismatch
from service_identity.hazmat import DNS_ID
from twisted.internet import defer, error
from twisted.python.failure import Failure
from twisted.web.client import ResponseNeverReceived

from kapi.wire.network_errors import LookupTimedOut, describe, describe_request, is_domain_name

REFUSED = error.ConnectionRefusedError()


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (REFUSED, "dial tcp 10.0.0.1:443: connect: connection refused"),
        (ResponseNeverReceived([Failure(REFUSED)]), "dial tcp 10.0.0.1:443: connect: connection refused"),
        (error.NoRouteError(), "dial tcp 10.0.0.1:443: connect: no route to host"),
        (error.TimeoutError(), "dial tcp 10.0.0.1:443: i/o timeout"),
        (defer.TimeoutError(), "dial tcp 10.0.0.1:443: i/o timeout"),
        (error.DNSLookupError(), "dial tcp: lookup 10.0.0.1: no such host"),
        (LookupTimedOut(), "dial tcp: lookup 10.0.0.1: i/o timeout"),
        (error.ConnectionDone(), "EOF"),
        (error.ConnectionLost(), "EOF"),
        (
            SSL.Error([("SSL routines", "", "certificate verify failed")]),
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        ),
        (ValueError("in its own words"), "in its own words"),
        (ValueError(), "ValueError"),
    ],
)
def test_failures_in_the_words_of_go(problem: Exception, text: str) -> None:
    assert describe(problem, "10.0.0.1", 443) == text


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("a.example", True),
        ("a_b.", True),
        ("h1", True),
        ("1", False),
        ("a..b", False),
        ("*", False),
        ("-a", False),
        ("ü", True),
    ],
)
def test_the_name_server_is_named_when_it_was_asked(name: str, asked: bool) -> None:
    pattern = r" on (\[.*\]|[\d.]+):53" if asked else ""
    text = describe(error.DNSLookupError(), name, 443)
    assert re.fullmatch(rf"dial tcp: lookup {re.escape(name)}{pattern}: no such host", text)


def test_addresses_of_ipv6_stand_in_brackets() -> None:
    assert describe(REFUSED, "fd00::1", 443).startswith("dial tcp [fd00::1]:443: ")


def test_a_certificate_is_refused_for_the_name_that_was_wanted() -> None:
    """which may be another than that of the address"""
    mismatch = DNSMismatch(mismatched_id=DNS_ID("api.example.com"))
    text = describe(VerificationError(errors=[mismatch]), "10.0.0.1", 443)
    assert text == "tls: failed to verify certificate: x509: certificate is not valid for api.example.com"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://h:1/a?b=c", 'Post "https://h:1/a?b=c": dial tcp h:1: connect: connection refused'),
        ("https://u:secret@h/a", 'Post "https://h/a": dial tcp h:443: connect: connection refused'),
        ("http://[::1]", 'Post "http://[::1]": dial tcp [::1]:80: connect: connection refused'),
    ],
)
def test_requests_are_named_without_credentials(url: str, text: str) -> None:
    assert describe_request(REFUSED, "POST", url) == text


@pytest.mark.parametrize("url", ["https://h:99999", "https://["])
def test_a_url_that_is_none(url: str) -> None:
    assert describe_request(ValueError("no port"), "GET", url).startswith(f'parse "{url}": ')


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (".", True),
        ("", False),
        ("a", True),
        ("a.", True),
        ("a..", False),
        (".a", False),
        ("a..b", False),
        ("-a", False),
        ("a-.b", False),
        ("_a.b_c", True),
        ("1.2", False),
        ("1-2", True),
        ("a b", False),
        ("a" * 63, True),
        ("a" * 64, False),
        ("a." * 126 + "b", True),  # 253 characters
        ("a." * 127, True),  # 254 with the last dot
        ("a." * 126 + "bc", False),
        ("a." * 127 + "b", False),
    ],
)
def test_names_that_a_name_server_is_asked_for(name: str, known: bool) -> None:
    assert is_domain_name(name) is known
