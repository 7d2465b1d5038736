"""When a resource is loaded again, and what its cache then has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.status import TooManyRequests
from kapi.store.errors import StoreUnavailable
from kapi.store.interface import CREATED, DELETED, UPDATED, Change, StoredObject
from kapi.watchcache import reload
from kapi.watchcache.contents import Contents
from kapi.watchcache.reload import Reload, merged


def stored(key: str, revision: int) -> StoredObject:
    return StoredObject(key, revision, b"%s%d" % (key.encode(), revision))


def change(kind: str, key: str, revision: int) -> Change:
    return Change(revision, kind, key, b"%s%d" % (key.encode(), revision))


@pytest.mark.parametrize(
    ("scanned", "changes", "objects"),
    [
        ([("a", 1)], [], [("a", 1)]),
        ([("a", 5)], [change(UPDATED, "a", 4), change(UPDATED, "a", 5)], [("a", 5)]),
        ([("a", 5)], [change(DELETED, "a", 4), change(DELETED, "a", 5)], [("a", 5)]),
        ([("a", 5)], [change(UPDATED, "a", 6)], [("a", 6)]),
        ([("a", 5), ("b", 2)], [change(DELETED, "a", 6)], [("b", 2)]),
        ([("b", 2)], [change(CREATED, "a", 3)], [("b", 2), ("a", 3)]),
        ([], [change(CREATED, "a", 3), change(DELETED, "a", 4), change(DELETED, "c", 5), change(CREATED, "a", 6)], [("a", 6)]),
    ],
)  # fmt: skip
def test_what_is_known_after_changes_during_a_scan(
    scanned: list[tuple[str, int]], changes: list[Change], objects: list[tuple[str, int]]
) -> None:
    found = {key: stored(key, revision) for key, revision in scanned}
    assert merged(found, changes) == [stored(key, revision) for key, revision in objects]


class Reloading(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.scans: list[tuple[float, Deferred[Sequence[StoredObject]]]] = []  # when each began
        self.prepared: list[list[StoredObject]] = []
        self.loaded: list[Sequence[Change]] = []
        self.during: Callable[[], object] = lambda: None  # what happens while the objects are prepared
        self.reload = Reload(self.clock, "pods", self.call, self.scan, lambda: succeed(None), self.prepare, self.load)  # type: ignore[arg-type]

    def call(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        result = function(*arguments)
        self.during()
        return succeed(result)

    def scan(self) -> Deferred[Sequence[StoredObject]]:
        self.scans.append((self.clock.seconds(), Deferred()))
        return self.scans[-1][1]

    def prepare(self, objects: Iterable[StoredObject]) -> Contents:
        self.prepared.append(list(objects))
        return Contents()

    def load(self, contents: Contents, changes: Sequence[Change]) -> None:
        self.loaded.append(list(changes))

    def test_changes_before_and_after_the_objects_are_prepared(self) -> None:
        self.reload.begin()
        self.reload.begin()
        self.assertEqual((self.reload.running, self.reload.count, self.scans), (True, 2, []))
        self.clock.advance(0.05)
        self.reload.missed(change(UPDATED, "a", 6))
        late = change(UPDATED, "a", 7)
        self.during = lambda: self.reload.missed(late)
        self.scans[0][1].callback([stored("a", 5)])
        self.assertEqual((self.prepared, self.loaded), ([[stored("a", 6)]], [[late]]))
        self.assertEqual((self.reload.running, len(self.scans), self.clock.getDelayedCalls()), (False, 1, []))

    def test_more_changes_than_are_kept_are_scanned_for(self) -> None:
        with patch.object(reload, "MAX_MISSED", 2):
            self.reload.begin()
            self.clock.advance(0.05)
            for revision in (6, 7):
                self.reload.missed(change(UPDATED, "a", revision))
            self.during = lambda: self.reload.missed(change(UPDATED, "a", 8))
            self.scans[0][1].callback([stored("a", 5)])  # overflows while the objects are prepared
            self.assertEqual((len(self.prepared), self.loaded), (1, []))
            self.clock.advance(0.1)
            for revision in (9, 10, 11):
                self.reload.missed(change(UPDATED, "a", revision))
            self.scans[1][1].callback([stored("a", 8)])  # has overflowed before
            self.assertEqual((len(self.prepared), self.loaded), (1, []))
            self.during = lambda: None
            self.clock.advance(0.2)
            self.scans[2][1].callback([stored("a", 11)])
            self.assertEqual((self.prepared[1:], self.loaded), ([[stored("a", 11)]], [[]]))

    def test_attempts_come_later_and_later(self) -> None:
        self.reload.begin()
        begun = []
        for number in range(12):
            (call,) = self.clock.getDelayedCalls()
            begun.append(round(call.getTime() - self.clock.seconds(), 2))
            self.clock.advance(begun[-1])
            self.scans[number][1].errback(StoreUnavailable("away"))
        self.flushLoggedErrors()
        self.assertEqual(begun, [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])

    def test_a_minute_without_a_fault_is_quiet(self) -> None:
        for at, delay in ((0.0, 0.05), (10.0, 0.1), (70.0, 0.2), (130.5, 0.05)):
            self.clock.rightNow = at
            self.reload.begin()
            (call,) = self.clock.getDelayedCalls()
            self.assertEqual(round(call.getTime() - at, 2), delay)
            self.clock.advance(delay)
            self.scans[-1][1].callback([])
        self.assertEqual(self.reload.count, 4)

    def test_who_waits_is_told_when_it_ends_or_after_three_seconds(self) -> None:
        self.reload.begin()
        early = self.reload.wait()
        self.clock.advance(2)
        late = self.reload.wait()
        self.clock.advance(0.75)
        self.assertNoResult(early)
        self.clock.advance(0.25)
        error = self.failureResultOf(early, TooManyRequests).value
        self.assertIn("storage is (re)initializing", str(error))
        self.assertEqual(error.retry_after, 1)
        gone = self.reload.wait()
        gone.addErrback(lambda failure: None)
        gone.cancel()
        self.scans[0][1].callback([])
        self.successResultOf(late)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_it_ends_where_it_is_when_the_server_stops(self) -> None:
        self.reload.begin()
        self.clock.advance(0.05)
        waiting = self.reload.wait()
        self.reload.end()
        self.successResultOf(waiting)
        self.assertEqual((self.reload.running, self.loaded, self.clock.getDelayedCalls()), (False, [], []))
        self.flushLoggedErrors()
