"""The history of the store in memory, and its end."""

from __future__ import annotations

import pytest

from kapi.store.errors import Compacted, StoreUnavailable
from kapi.store.memory import MemoryStore
from kapi.testing.memory_api import succeed


def test_changes_are_there_until_they_are_compacted() -> None:
    store = MemoryStore()
    for name in "abc":
        succeed(store.create(f"core/configmaps/n/{name}", b"", b""))
    assert [change.revision for change in store.changes(1, 3)] == [2, 3]
    assert [change.revision for change in store.changes(0, 2)] == [1, 2]
    succeed(store.compact(2))
    assert [change.revision for change in store.changes(2, 3)] == [3]
    with pytest.raises(Compacted, match=r"too old resource version: 1 \(2\)$"):
        store.changes(1, 3)
    restored = MemoryStore(snapshot=store.snapshot())
    assert restored.changes(3, 3) == []
    with pytest.raises(Compacted, match=r"too old resource version: 2 \(3\)$"):
        restored.changes(2, 3)


def test_a_store_that_is_retired_refuses_writes_and_says_why() -> None:
    store = MemoryStore()
    revision = succeed(store.create("a", b"", b""))
    store.retire("it was reset")
    for write in (
        store.create("b", b"", b""),
        store.update("a", revision, b"", b""),
        store.delete("a", revision, b"", b""),
    ):
        with pytest.raises(StoreUnavailable, match="^it was reset$"):
            succeed(write)
    assert succeed(store.get("a")) is not None
