"""What is said of names, keys and values that are not well formed."""

from __future__ import annotations

import pytest

from kapi.machinery import names
from kapi.resources.shared import names as in_objects

LABEL_FORM = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY_FORM = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize("check", [names.dns_label, names.dns_subdomain, names.dns_1035_label, names.label_value])
def test_a_good_name_has_no_complaints(check: object) -> None:
    assert check("abc-1") == ()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("", (LABEL_FORM,)),
        ("A", (LABEL_FORM,)),
        ("a.b", ("must not contain dots",)),
        ("a\n", (LABEL_FORM,)),
        ("a" * 64, ("must be no more than 63 characters",)),
        ("A" * 64, ("must be no more than 63 characters", LABEL_FORM)),
    ],
)
def test_labels(name: str, texts: tuple[str, ...]) -> None:
    assert names.dns_label(name) == texts


def test_the_limit_is_in_bytes_and_said_as_upstream_says_it() -> None:
    assert names.dns_label("é" * 32) == ("must be no more than 63 characters", LABEL_FORM)
    assert names.dns_subdomain("a" * 254) == ("must be no more than 253 characters",)
    assert names.long_name("a" * 254) == ("must be no more than 253 bytes",)
    assert names.dns_1035_label("a" * 64) == ("must be no more than 63 characters",)
    assert names.label_value("a" * 64) == ("must be no more than 63 bytes",)


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("", ("name part must be non-empty", "name part " + KEY_FORM)),
        ("/a", ("prefix part must be non-empty",)),
        ("a/", ("name part must be non-empty", "name part " + KEY_FORM)),
        ("k8s.io/" + "a" * 64, ("name part must be no more than 63 bytes",)),
        ("a" * 254 + "/b", ("prefix part must be no more than 253 bytes",)),
        ("-", ("name part " + KEY_FORM,)),
    ],
)
def test_qualified_names(key: str, texts: tuple[str, ...]) -> None:
    assert names.qualified_name(key) == texts


def test_a_qualified_name_has_one_slash_at_most() -> None:
    text = f"a valid label key {KEY_FORM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    assert names.qualified_name("a/b/c") == (text,)


def test_path_segments() -> None:
    assert names.path_segment("..") == ("may not be '..'",)
    assert names.path_segment("a/b%c") == ("may not contain '/'", "may not contain '%'")
    assert names.path_segment_prefix("..") == ()
    assert in_objects.path_segment_name("..", True) == ("may not be '..'",)


def test_a_generated_name_may_end_with_a_dash() -> None:
    assert in_objects.subdomain_name("my-name-", True) == ()
    assert in_objects.subdomain_name("my-name-", False) != ()
    assert in_objects.label_name("-", True) == (LABEL_FORM,)


def test_wildcards_and_underscores() -> None:
    assert in_objects.is_wildcard_dns1123_subdomain("*.a.b") == ()
    assert in_objects.is_wildcard_dns1123_subdomain("*.") != ()
    assert in_objects.is_dns1123_subdomain_with_underscore("_a.b_c") == ()
    assert "'_', '-' or '.'" in in_objects.is_dns1123_subdomain_with_underscore("A")[0]
    for name, rule in (
        ("*.a", in_objects.is_wildcard_dns1123_subdomain),
        ("_a", in_objects.is_dns1123_subdomain_with_underscore),
    ):
        assert rule(name.ljust(253, "a")) == ()
        assert rule(name.ljust(254, "a")) == ("must be no more than 253 characters",)
        assert len(rule("A" * 253)) == 1  # only the form is wrong
        assert rule("A" * 254)[0] == "must be no more than 253 characters" and len(rule("A" * 254)) == 2


def test_port_names() -> None:
    assert in_objects.is_port_name("http-2") == ()
    assert in_objects.is_port_name("a" * 16) == ("must be no more than 15 characters",)
    assert in_objects.is_port_name("-1--") == (
        "must contain at least one letter (a-z)",
        "must not contain consecutive hyphens",
        "must not begin or end with a hyphen",
    )
