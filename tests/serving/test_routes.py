"""The fixed paths of the outermost server."""

from __future__ import annotations

import pytest

from kapi.testing.memory_api import MemoryAPI


@pytest.mark.parametrize(
    ("method", "path", "accept", "code"),
    [
        ("GET", "/version", "application/json", 200),
        ("GET", "/version/", "*/*", 200),
        ("GET", "/version/more", "application/json", 404),
        ("POST", "/version", "application/json", 405),
        ("GET", "/version", "application/yaml", 406),
    ],
)
def test_the_version(method: str, path: str, accept: str, code: int) -> None:
    assert MemoryAPI().ask(method, path, headers={"Accept": accept}).code == code
