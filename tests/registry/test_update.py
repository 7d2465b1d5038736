"""The optimistic loop, and the stores of a registry."""

from __future__ import annotations

import gc
from collections.abc import Awaitable
from typing import Any

import pytest
from twisted.internet.defer import fail

from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import Conflict, NotFound
from kapi.machinery.tree import Object
from kapi.registry.operation import Operation, Stored
from kapi.registry.update import update
from kapi.store.errors import RevisionConflict
from kapi.testing.memory_api import MemoryAPI, succeed

MAPS = GroupResource("", "configmaps")
PATH = "/api/v1/namespaces/ns/configmaps"


@pytest.fixture
def api() -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started())
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    assert api.ask("POST", PATH, {"metadata": {"name": "a"}, "data": {"n": "0"}}).code == 201
    return api


class Writer:
    """Changes ``data.n``; others may write while it has the object in hand."""

    def __init__(self, api: MemoryAPI, rivals: int = 0, version: str = "") -> None:
        self.api, self.rivals, self.version = api, rivals, version
        self.seen: list[str] = []

    async def __call__(self, old: Object | None) -> Object:
        assert old is not None
        self.seen.append(old["data"]["n"])
        if len(self.seen) <= self.rivals:
            body = {"metadata": {"name": "a"}, "data": {"n": f"rival {len(self.seen)}"}}
            assert self.api.ask("PUT", f"{PATH}/a", body).code == 200
        metadata = {**old["metadata"], "resourceVersion": self.version}
        return {**old, "metadata": metadata, "data": {"n": "mine"}}

    def write(self, name: str = "a") -> Stored:
        store = self.api.registry.stores[MAPS]
        stored: Stored = succeed(update(store, Operation(store.row, "ns", name), self))
        return stored


def test_who_comes_too_late_looks_at_what_is_there_now(api: MemoryAPI) -> None:
    writer = Writer(api, rivals=2)
    assert writer.write().obj["data"] == {"n": "mine"}
    assert writer.seen == ["0", "rival 1", "rival 2"]


def test_what_came_too_late_is_freed_at_once(api: MemoryAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt's object may be large, and what only the garbage collector finds waits for it."""
    writer, write = Writer(api), api.store.update
    refused = iter([RevisionConflict("core/configmaps/ns/a", 1, 2)])

    def answer(*arguments: Any, **more: Any) -> Awaitable[int]:
        for error in refused:
            return fail(error)
        return write(*arguments, **more)

    monkeypatch.setattr(api.store, "update", answer)
    gc.collect()
    gc.disable()
    try:
        writer.write()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, dict) and each.get("data") == {"n": "mine"}]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert (writer.seen, left) == (["0", "0"], [])


def test_who_names_a_version_writes_over_no_other(api: MemoryAPI) -> None:
    version = api.registry.stores[MAPS].cache.get("ns", "a")
    assert version is not None
    writer = Writer(api, rivals=1, version=str(version.revision))
    with pytest.raises(Conflict):
        writer.write()
    assert api.ask("GET", f"{PATH}/a").json["data"] == {"n": "rival 1"}


def test_what_changes_nothing_takes_no_revision(api: MemoryAPI) -> None:
    first = Writer(api).write()
    assert Writer(api).write().revision == first.revision


def test_what_is_not_there_is_not_found(api: MemoryAPI) -> None:
    writer = Writer(api)
    with pytest.raises(NotFound):
        writer.write("b")
    assert writer.seen == []


def test_versions_of_a_resource_share_a_store_that_ends_its_watches_when_it_goes(api: MemoryAPI) -> None:
    registry = api.registry
    store = registry.stores[MAPS]
    assert registry.add(store.row) is store
    ends: list[Any] = []
    store.cache.watch(None, lambda batch: None, ends.append)
    registry.remove(MAPS)
    registry.remove(MAPS)  # it is gone already
    assert ends == [None]
    assert MAPS not in registry.stores and registry.environment.listers.get(MAPS) is None
    again = registry.add(store.row)
    assert again is not store
    assert again.cache.get("ns", "a") is not None  # its objects stayed
