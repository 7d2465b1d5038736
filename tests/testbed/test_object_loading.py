"""Loading objects while their cache lags behind the store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.gvk import GroupResource, GroupVersionKind
from kapi.store.errors import KeyExists, RevisionConflict
from kapi.testbed.object_loading import LoadEndpoint

ITEM = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "n", "uid": "u"}}
MANY = 50  # attempts that nobody should make


class Store:
    """A resource whose cache shows revision 1 until ``wait_for``, and whose store has revision 7."""

    group_resource = GroupResource("example.com", "widgets")

    def __init__(self, *, catches_up: bool, cached: bool = True) -> None:
        self.catches_up = catches_up
        self.seen: int | None = 1 if cached else None
        self.waited: list[int] = []
        self.attempts = 0
        self.cache = self.store = self

    async def stored_form(self, item: dict[str, Any]) -> dict[str, Any]:
        return item

    def key(self, namespace: str, name: str) -> str:
        return f"example.com/widgets/{namespace}/{name}"

    def encode(self, item: dict[str, Any]) -> tuple[bytes, bytes]:
        return b"head", b"tail"

    def expires(self) -> None:
        return None

    def get(self, namespace: str, name: str) -> object:
        return None if self.seen is None else SimpleNamespace(revision=self.seen)

    def wait_for(self, revision: int) -> Deferred[None]:
        self.waited.append(revision)
        if self.catches_up:
            self.seen = revision
        return succeed(None)

    async def create(self, key: str, *halves: bytes, expires: object) -> int:
        self._count()
        raise KeyExists(key, 7)

    async def update(self, key: str, expected: int, *halves: bytes, expires: object) -> int:
        self._count()
        if expected != 7:
            raise RevisionConflict(key, expected, 7)
        return 8

    def _count(self) -> None:
        self.attempts += 1
        assert self.attempts < MANY, "it goes on for ever"


class Loading(SynchronousTestCase):
    def load(self, store: Store) -> list[str]:
        kind = GroupVersionKind("example.com", "v1", "Widget")
        row = SimpleNamespace(handler="", schema={}, namespaced=True)
        table: Any = SimpleNamespace(scopes=lambda: [SimpleNamespace(kind=kind, resource=row, store=store)])
        endpoint = LoadEndpoint([table], Clock(), lambda: "2026-01-01T00:00:00Z")
        return self.successResultOf(Deferred.fromCoroutine(endpoint._take([ITEM])))

    def test_it_waits_until_the_cache_has_the_revision_that_is_stored(self) -> None:
        store = Store(catches_up=True)
        self.assertEqual(self.load(store), [])
        self.assertEqual((store.waited, store.attempts), ([7], 2))

    def test_an_object_that_the_cache_does_not_have_yet_is_replaced(self) -> None:
        store = Store(catches_up=True, cached=False)
        self.assertEqual(self.load(store), [])
        self.assertEqual((store.waited, store.attempts), ([7], 2))

    def test_an_object_that_changes_all_the_time_is_refused(self) -> None:
        [refused] = self.load(Store(catches_up=False))
        self.assertIn("Widget w: ", refused)
        self.assertIn("the object has been modified", refused)
