"""Which servers confirm that a write is on disk."""

from __future__ import annotations

import pytest

from kapi.store.suitability import knows_disk


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("6.2.14", False), ("7.0.15", False), ("7.1.99", False), ("7.2", True), ("7.2.0", True), ("7.4.1", True),
        ("8.0.0", True), ("10.1.2", True), ("255.255.255", True),
    ],
)  # fmt: skip
def test_waiting_for_the_disk_is_known_since_7_2(version: str, known: bool) -> None:
    assert knows_disk({"aof_enabled": "1", "redis_version": version}) == known
    assert not knows_disk({"aof_enabled": "0", "redis_version": version})


def test_without_a_version_or_an_append_only_file_it_is_not_known() -> None:
    assert not knows_disk({"aof_enabled": "1"}) and not knows_disk({"redis_version": "8.0.0"})
