"""A store in memory whose follower takes all there is in slices: what happens meanwhile is not lost, nor told too early."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial import unittest

from kapi.store.interface import Change, StoredObject
from kapi.store.memory import MemoryStore

OBJECT = (b'{"metadata":{"resourceVersion":"', b'"}}')


class Follower:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def reset(self, objects: Iterable[StoredObject], history: Sequence[Change], revision: int) -> None:
        self.told.append(("reset", [obj.key for obj in objects], revision))

    def changed(self, changes: Sequence[Change]) -> None:
        self.told.append(("changed", [change.key for change in changes]))


class TestLoading(unittest.TestCase):
    def setUp(self) -> None:
        self.store = MemoryStore()
        self.follower = Follower()
        self.suspended: list[Callable[[], None]] = []
        self.store.call = self.call
        self.put("core/configmaps/default/before")
        self.starting = Deferred.fromCoroutine(self.store.start(self.follower))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Others work before the function is done."""
        done: Deferred[Any] = Deferred()
        self.suspended.append(lambda: done.callback(function(*arguments)))
        return done

    def put(self, key: str) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.store.create(key, *OBJECT)))

    def test_what_is_written_meanwhile_comes_afterwards(self) -> None:
        self.put("core/configmaps/default/meanwhile")
        self.assertNoResult(self.starting)
        self.assertEqual(self.follower.told, [])
        self.suspended.pop()()
        self.successResultOf(self.starting)
        self.put("core/configmaps/default/after")
        self.assertEqual(
            self.follower.told,
            [
                ("reset", ["core/configmaps/default/before"], 1),
                ("changed", ["core/configmaps/default/meanwhile"]),
                ("changed", ["core/configmaps/default/after"]),
            ],
        )

    def test_one_that_is_stopped_meanwhile_is_told_nothing_more(self) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.store.stop()))
        self.put("core/configmaps/default/meanwhile")
        self.suspended.pop()()
        self.successResultOf(self.starting)
        self.put("core/configmaps/default/after")
        self.assertEqual([kind for kind, *_ in self.follower.told], ["reset"])
