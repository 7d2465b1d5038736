"""The optimistic loop, and the stores of a registry."""

from __future__ import annotations

import gc
import json
from collections.abc import Awaitable
from typing import Any

import orjson
import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import deferLater

from kapi.machinery import tree
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import Conflict, NotFound
from kapi.machinery.tree import Object
from kapi.registry.direct import modify
from kapi.registry.operation import Operation, Stored
from kapi.registry.update import update
from kapi.request.user import LOOPBACK_USER
from kapi.store.errors import RevisionConflict
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed
from kapi.watchcache.entry import Entry

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


def test_what_was_written_is_kept_decoded_until_somebody_else_has_written(api: MemoryAPI) -> None:
    store = api.registry.stores[MAPS]
    stored = Writer(api).write()
    store.keep_decoded(stored, "ns", "a")
    assert store.cache.get("ns", "a").object is stored.obj
    assert api.ask("PUT", f"{PATH}/a", {"metadata": {"name": "a"}, "data": {"n": "rival"}}).code == 200
    store.keep_decoded(stored, "ns", "a")
    assert store.cache.get("ns", "a").object["data"] == {"n": "rival"}


def test_a_change_by_the_server_itself_is_made_again_on_what_is_there_now(api: MemoryAPI) -> None:
    seen: list[Any] = []

    def change(obj: Object) -> None:
        seen.append(dict(obj["data"]))
        if len(seen) == 1:
            assert api.ask("PUT", f"{PATH}/a", {"metadata": {"name": "a"}, "data": {"n": "rival"}}).code == 200
        obj["data"]["more"] = "mine"

    store = api.registry.stores[MAPS]
    stored = succeed(modify(store, LOOPBACK_USER, "ns", "a", change))
    assert seen == [{"n": "0"}, {"n": "rival"}]
    assert stored.obj["data"] == api.ask("GET", f"{PATH}/a").json["data"] == {"n": "rival", "more": "mine"}
    with pytest.raises(NotFound):
        succeed(modify(store, LOOPBACK_USER, "ns", "none", change))


def test_who_comes_too_late_looks_at_what_is_there_now(api: MemoryAPI) -> None:
    writer = Writer(api, rivals=2)
    assert writer.write().obj["data"] == {"n": "mine"}
    assert writer.seen == ["0", "rival 1", "rival 2"]


class SlowStore:
    """Answers after a tenth of a second of the API's clock, if the store answers at all."""

    def __init__(self, api: MemoryAPI, monkeypatch: pytest.MonkeyPatch) -> None:
        self._clock, self._write = api.clock, api.store.update
        self.answers, self.attempts = True, 0
        monkeypatch.setattr(api.store, "update", self._answer)

    async def _answer(self, *arguments: Any, **more: Any) -> int:
        self.attempts += 1
        if not self.answers:
            await Deferred()
        await deferLater(self._clock, 0.1)
        revision: int = await self._write(*arguments, **more)
        return revision


def patches(api: MemoryAPI, *names: str) -> list[MemoryRequest]:
    kind = "application/merge-patch+json"
    return [api.ask("PATCH", f"{PATH}/a", {"data": {name: "x"}}, type=kind) for name in names]


def test_many_who_write_one_object_try_again_one_after_another(api: MemoryAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowStore(api, monkeypatch)
    names = [f"n{each}" for each in range(8)]
    sent = patches(api, *names)
    for _ in range(10):
        api.turn(0.1)
    assert [request.code for request in sent] == [200] * len(names)
    assert set(names) <= set(api.ask("GET", f"{PATH}/a").json["data"])
    assert slow.attempts == 8 + 7 + 6  # all at once would be 36


def test_who_waits_for_one_that_hangs_tries_after_a_second(api: MemoryAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowStore(api, monkeypatch)
    sent = patches(api, "a", "b", "c", "d")
    api.turn(0.1)  # the first has written, the others try again
    slow.answers = False
    api.turn(0.1)  # the second has written, the third has a turn
    slow.answers = True
    api.turn(0.9)
    assert [bool(request.finished) for request in sent] == [True, True, False, False]
    api.turn(0.1)
    api.turn(0.1)
    assert [bool(request.finished) for request in sent] == [True, True, False, True]


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
    assert ends == [None]
    registry.remove(MAPS)  # it is gone already
    assert ends == [None]
    assert MAPS not in registry.stores and registry.environment.listers.get(MAPS) is None
    again = registry.add(store.row)
    assert again is not store
    assert again.cache.get("ns", "a") is not None  # its objects stayed


def entry_of(api: MemoryAPI, resource: GroupResource = MAPS, name: str = "a") -> Entry:
    entry = api.registry.stores[resource].cache.get("ns", name)
    assert entry is not None
    return entry


def test_what_a_client_updates_again_is_not_decoded_again(api: MemoryAPI) -> None:
    """What is kept is what decoding would give, and the next change leaves it as it was."""
    kept: list[tuple[Entry, Object]] = []
    for number in range(3):
        body = {"metadata": {"name": "a", "labels": {"l": f"{number}"}}, "data": {"n": f"{number}"}}
        assert api.ask("PUT", f"{PATH}/a", body).code == 200
        kept.append((entry_of(api), tree.copy(entry_of(api).decoded)))
        patch = json.dumps({"data": {"p": f"{number}"}}).encode()
        assert api.ask("PATCH", f"{PATH}/a", patch, type="application/merge-patch+json").code == 200
        kept.append((entry_of(api), tree.copy(entry_of(api).decoded)))
    assert len({entry.revision for entry, _ in kept}) == 6
    for entry, decoded in kept:
        assert entry.decoded == decoded == orjson.loads(entry.data)


def test_an_update_that_is_not_done_keeps_nothing(api: MemoryAPI) -> None:
    before = entry_of(api)
    body = {"metadata": {"name": "a"}, "data": {"n": "1"}}
    assert api.ask("PUT", f"{PATH}/a?dryRun=All", body).code == 200
    assert entry_of(api) is before
    assert before.object["data"] == {"n": "0"}
    refused = {**body, "metadata": {"name": "a", "resourceVersion": "1"}}
    assert api.ask("PUT", f"{PATH}/a", refused).code == 409
    assert before.object["data"] == {"n": "0"}


def test_large_objects_and_texts_that_are_kept_as_they_are_are_not_kept_decoded(api: MemoryAPI) -> None:
    body = {"metadata": {"name": "a"}, "data": {"n": "x" * 300_000}}
    assert api.ask("PUT", f"{PATH}/a", body).code == 200
    assert entry_of(api).decoded is None
    path = "/apis/apps/v1/namespaces/ns/controllerrevisions"
    revision = (
        b'{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"revision":%d,"data":{"a":1.0}}'
    )
    assert api.ask("POST", path, revision % 1).code == 201
    assert api.ask("PUT", f"{path}/r", revision % 2).code == 200
    assert entry_of(api, GroupResource("apps", "controllerrevisions"), "r").decoded is None
