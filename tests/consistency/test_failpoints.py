"""The launcher's failpoints find what they wrap, and act once, when their time has come."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kapi.store.connection import Connection
from kapi.store.redis_store import RedisStore
from kapi.watchcache.cache import Cache
from kapi.watchcache.caches import Caches
from tests.consistency import failpoints
from tests.consistency.failpoints import POINTS, Failpoint, Trigger, install

WRAPPED: list[tuple[type, str]] = [
    (RedisStore, "create"),
    (RedisStore, "update"),
    (RedisStore, "delete"),
    (RedisStore, "compact"),
    (Connection, "dataReceived"),
    (Cache, "apply"),
    (Caches, "changed"),
    (Caches, "reset"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was called and done, in order; the originals come back afterwards."""
    done: list[str] = []
    for owner, name in WRAPPED:

        def original(*arguments: Any, name: str = name) -> None:
            done.append(name)

        assert callable(getattr(owner, name))
        monkeypatch.setattr(owner, name, original)
    monkeypatch.setattr(failpoints.os, "kill", lambda pid, number: done.append("kill"))
    return done


@pytest.mark.parametrize(
    ("point", "owner", "name", "expected"),
    [
        ("commit", RedisStore, "update", ["update", "kill", "update", "update"]),
        ("reply.before", Connection, "dataReceived", ["dataReceived", "kill", "dataReceived", "dataReceived"]),
        ("reply.after", Connection, "dataReceived", ["dataReceived", "dataReceived", "kill", "dataReceived"]),
        ("feed.before", Caches, "changed", ["changed", "kill", "changed", "changed"]),
        ("feed.after", Caches, "changed", ["changed", "changed", "kill", "changed"]),
        ("reset.before", Caches, "reset", ["reset", "kill", "reset", "reset"]),
        ("compact.after", RedisStore, "compact", ["compact", "compact", "kill", "compact"]),
    ],
)
def test_the_second_passage_kills(calls: list[str], point: str, owner: type, name: str, expected: list[str]) -> None:
    install(Failpoint(point, "kill", 2))
    for _ in range(3):
        getattr(owner, name)()
    assert calls == expected


def test_a_change_that_fails(calls: list[str]) -> None:
    install(Failpoint("apply", "raise", 1))
    with pytest.raises(RuntimeError, match="failpoint apply"):
        Cache.apply()  # type: ignore[call-arg]
    Cache.apply()  # type: ignore[call-arg]
    assert calls == ["apply"]


def test_a_write_that_is_delayed(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    install(Failpoint("commit", "delay", 1, 0.01))
    answer: Any = RedisStore.create()  # type: ignore[call-arg]
    assert isinstance(answer, Deferred)
    assert calls == []
    answer.addErrback(lambda _: None)
    answer.cancel()
    RedisStore.create()  # type: ignore[call-arg]
    assert calls == ["create"]


@pytest.mark.parametrize("point", list(POINTS))
def test_every_point_can_be_installed(calls: list[str], point: str) -> None:
    install(Failpoint(point, POINTS[point][0], 99))


def test_a_trigger_is_due_once() -> None:
    trigger = Trigger(Failpoint("commit", "kill", 2))
    assert [trigger.due() for _ in range(4)] == [False, True, False, False]
