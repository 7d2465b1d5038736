"""``--redis-servers`` is a list, and the hosts inside a URL are one as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.testing import MemoryReactorClock

from kapi.foundation import Foundation
from kapi.options.errors import ConfigError
from kapi.options.options import Options

_SENTINELS = "redis+sentinel://a:1,b:2,c:3/name"


@pytest.mark.parametrize(
    ("arguments", "urls"),
    [
        (["--redis-servers=redis://h:1"], ["redis://h:1"]),
        ([f"--redis-servers={_SENTINELS}"], [_SENTINELS]),
        ([f"--redis-servers={_SENTINELS},redis://h:1"], [_SENTINELS, "redis://h:1"]),
        (["--redis-servers=redis://h:1,redis://h:2", f"--redis-servers={_SENTINELS}"],
         ["redis://h:1", "redis://h:2", _SENTINELS]),
        ([], []),
    ],
)  # fmt: skip
def test_urls(arguments: list[str], urls: list[str]) -> None:
    assert Options.from_command_line(arguments).storage.redis_servers == urls


@pytest.mark.parametrize(
    ("arguments", "number"),
    [([], None), (["--redis-min-replicas=0"], 0), (["--redis-min-replicas=2"], 2), (["--redis-min-replicas=-1"], None)],
)
def test_replicas(arguments: list[str], number: int | None) -> None:
    assert Options.from_command_line(["--redis-servers=redis://h", *arguments]).storage.min_replicas == number


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--redis-min-replicas=-2", "--redis-servers=redis://h"], "must be a number of replicas"),
        (["--redis-min-replicas=1"], "the embedded store has no replicas"),
    ],
)
def test_wrong_replicas(arguments: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Options.from_command_line(arguments)


@pytest.mark.parametrize(("arguments", "size"), [([], 3145728), (["--redis-max-object-bytes=0"], 0)])
def test_how_large_an_object_may_be(arguments: list[str], size: int, tmp_path: Path) -> None:
    options = Options.from_command_line([f"--data-dir={tmp_path}", *arguments])
    foundation = Foundation(options, MemoryReactorClock())
    try:
        assert foundation.store.max_object_bytes == size
    finally:
        foundation.release()


def test_how_much_may_wait_for_clients() -> None:
    assert Options.from_command_line([]).generic.max_pending_bytes == 256 << 20
    with pytest.raises(ConfigError, match="--max-pending-bytes can not be negative"):
        Options.from_command_line(["--max-pending-bytes=-1"])


def test_a_negative_size() -> None:
    with pytest.raises(ConfigError, match="--redis-max-object-bytes can not be negative"):
        Options.from_command_line(["--redis-max-object-bytes=-1"])


@pytest.mark.parametrize(("arguments", "seconds"), [([], 60.0), (["--storage-initialization-timeout=1m30s"], 90.0)])
def test_how_long_a_store_is_waited_for_at_the_start(arguments: list[str], seconds: float) -> None:
    assert Options.from_command_line(arguments).generic.storage_initialization_timeout == seconds


def test_a_negative_wait() -> None:
    with pytest.raises(ConfigError, match="--storage-initialization-timeout can not be negative"):
        Options.from_command_line(["--storage-initialization-timeout=-1s"])
