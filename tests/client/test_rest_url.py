"""URLs as client-go's REST client asks for them."""

from __future__ import annotations

import pytest

from kapi.client.rest_url import rest_url


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("https://h", "https://h/"),
        ("https://h/", "https://h/"),
        ("https://h:8443//mutate", "https://h:8443/mutate"),  # as envtest writes the URL of a webhook
        ("https://h///a//b", "https://h/a/b"),
        ("https://h/a/b/", "https://h/a/b"),
        ("https://h/a/../b/./c", "https://h/b/c"),
        ("https://h/../../a", "https://h/a"),
        ("https://h/a?b=c#d", "https://h/a"),
        ("https://[::1]:443/a", "https://[::1]:443/a"),
        ("https://h/a b%20c/%C3%A4", "https://h/a%20b%20c/%C3%A4"),
        ("https://h/a%2Fb", "https://h/a/b"),
    ],
)
def test_paths_are_cleaned(given: str, asked: str) -> None:
    assert rest_url(given) == asked
