"""URLs are parsed, and refused, as by Go."""

from __future__ import annotations

import pytest

from kapi.machinery.urls import ParsedURL, parse_request_uri, parse_url


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("HTTPS://u:p@a.b:1/c?d=e#f", ParsedURL("https", "u:p", "a.b:1", "/c", "d=e", "f")),
        ("mailto:a@b", ParsedURL("mailto")),
        ("a/b:c", ParsedURL(path="a/b:c")),
        ("//a.b/c", ParsedURL("", None, "a.b", "/c")),
        ("https://[::1]:443", ParsedURL("https", None, "[::1]:443")),
        ("https://[fe80::1%25en%30]", ParsedURL("https", None, "[fe80::1%25en%30]")),
        ('https://"<a>%25%c3%a4', ParsedURL("https", None, '"<a>%25%c3%a4')),
        ("///x", ParsedURL(path="///x")),
        ("s:///x", ParsedURL("s", path="/x")),
        ("s:/x//y", ParsedURL("s", path="/x//y")),
        ("https://h?q", ParsedURL("https", None, "h", "", "q")),
        ("https://@h", ParsedURL("https", "", "h")),
        ("/a?b?c#d#e", ParsedURL(path="/a", raw_query="b?c", fragment="d#e")),
        ("a?b:c", ParsedURL(path="a", raw_query="b:c")),
        ("s:o?q#f", ParsedURL("s", raw_query="q", fragment="f")),
        ("", ParsedURL()),
    ],
)
def test_parts(text: str, parsed: ParsedURL) -> None:
    assert parse_url(text) == parsed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("::1", 'parse "::1": missing protocol scheme'),
        ("10.0.0.1:443/x", 'parse "10.0.0.1:443/x": first path segment in URL cannot contain colon'),
        ("https://[::1/#x", """parse "https://[::1/": missing ']' in host"""),
        ("https://a:b", 'parse "https://a:b": invalid port ":b" after host'),
        ("https://a b", 'parse "https://a b": invalid character " " in host name'),
        ("https://a\\b", r'parse "https://a\\b": invalid character "\\" in host name'),
        ("https://a%zz {", 'parse "https://a%zz {": invalid URL escape "%zz"'),
        ("https://a%41", 'parse "https://a%41": invalid URL escape "%41"'),
        ("https://a/%zz", 'parse "https://a/%zz": invalid URL escape "%zz"'),
        ("a\n", r'parse "a\n": net/url: invalid control character in URL'),
    ],
)
def test_faults(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_url(text)
    assert str(caught.value) == why


def test_a_request_has_an_absolute_url_or_an_absolute_path() -> None:
    assert parse_request_uri("//a.b/c") == ParsedURL(path="//a.b/c")
    assert parse_request_uri("s://h/x") == ParsedURL("s", None, "h", "/x")
    assert parse_request_uri("///x?y") == ParsedURL(path="///x", raw_query="y")
    assert parse_request_uri("s:o") == ParsedURL("s")
    with pytest.raises(ValueError, match="^empty url$"):
        parse_request_uri("")
    with pytest.raises(ValueError, match="^invalid URI for request$"):
        parse_request_uri("a/b")
