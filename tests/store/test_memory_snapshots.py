"""Snapshots of the store in memory: what was there stays there, whatever becomes of the store."""

from __future__ import annotations

from twisted.trial import unittest

from kapi.store.errors import RevisionConflict
from kapi.store.memory import MemoryStore
from kapi.testing.memory_api import succeed

KEY = "core/configmaps/default/one"


class TestSnapshots(unittest.TestCase):
    def setUp(self) -> None:
        self.store = MemoryStore(clock=lambda: 1000.0)
        self.first = succeed(self.store.create(KEY, b'{"v":"', b'"}', expires=900.0))
        self.snapshot = self.store.snapshot()
        self.copy = MemoryStore(clock=lambda: 1000.0, snapshot=self.snapshot)

    def test_a_store_from_one_holds_the_same_and_goes_on_from_its_revision(self) -> None:
        self.assertEqual(succeed(self.copy.get(KEY)), succeed(self.store.get(KEY)))
        self.assertIs(succeed(self.copy.get(KEY)).data, succeed(self.store.get(KEY)).data)
        self.assertEqual(succeed(self.copy.update(KEY, self.first, b"a", b"b")), self.first + 1)

    def test_writes_to_one_are_not_seen_by_the_other(self) -> None:
        succeed(self.store.delete(KEY, self.first, b"", b""))
        succeed(self.store.create("core/configmaps/default/two", b"", b""))
        self.assertIsNotNone(succeed(self.copy.get(KEY)))
        self.assertEqual([one.key for one in succeed(self.copy.scan("core/"))], [KEY])
        self.assertEqual([value.key for value in self.snapshot.values()], [KEY])
        with self.assertRaises(RevisionConflict):
            succeed(self.copy.update(KEY, self.first + 1, b"", b""))

    def test_what_expires_does_so_in_both(self) -> None:
        for store in (self.store, self.copy):
            due = succeed(store.due(1000.0, 10))
            self.assertEqual([tuple(one) for one in due], [(KEY, self.first, b'{"v":"', b'"}')])

    def test_objects_are_in_tables_by_resource_and_a_write_copies_only_its_own(self) -> None:
        for key in ("core/pods/default/one", "apps/pods/one"):
            succeed(self.store.create(key, b"", b""))
        before = self.store.tables()
        self.assertEqual(set(before), {"core/configmaps", "core/pods", "apps/pods"})
        succeed(self.store.create("core/pods/default/two", b"", b""))
        after = self.store.tables()
        self.assertEqual([name for name in before if before[name] is not after[name]], ["core/pods"])
        self.assertEqual((len(before["core/pods"]), len(after["core/pods"])), (1, 2))
