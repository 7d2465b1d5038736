"""The client inside the process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from kapi.machinery import freeing
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.registry.stores import Stores
from kapi.runtime.interface import ResourceClient
from kapi.testing.memory_api import MemoryAPI, succeed


def test_a_watch_by_name_tells_of_no_other_and_decodes_none() -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    for namespace in ("a", "b"):
        api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    told: list[tuple[str, ...]] = []

    def note(event: str, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        told.append((event, obj["metadata"]["namespace"], obj["metadata"]["name"]))

    maps = api.registry.client.resource("", "configmaps")
    stops = [maps.watch(note, name="x"), maps.watch(note, namespace="b", name="x")]
    for namespace in ("a", "b"):
        for name in ("x", "y"):
            code = api.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}}).code
            assert code == 201
    api.turn()
    assert sorted(told) == [("ADDED", "a", "x"), ("ADDED", "b", "x"), ("ADDED", "b", "x")]
    entries, _ = api.registry.stores[GroupResource("", "configmaps")].cache.list()
    assert {entry.key: entry._object is not None for entry in entries} == {
        "a/x": True, "a/y": False, "b/x": True, "b/y": False,
    }  # fmt: skip
    for stop in stops:
        stop()
    api.ask("DELETE", "/api/v1/namespaces/a/configmaps/x")
    api.turn()
    assert len(told) == 3


def test_what_a_large_list_has_decoded_is_freed_in_steps() -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    maps = api.registry.client.resource("", "configmaps")
    taken: list[object] = []
    with patch.object(freeing, "collector", taken.append):
        for number in range(3):
            body = {"metadata": {"name": f"m{number}"}, "data": {"value": "x" * 100_000}}
            assert api.ask("POST", "/api/v1/namespaces/default/configmaps", body).code == 201
            found = succeed(_list(maps))
            assert len(found) == number + 1
            assert sum(one is found for one in taken) == (number == 2), "a small list is not worth it"


async def _list(maps: ResourceClient) -> list[Object]:
    return await maps.list("default")


def test_a_resource_that_is_switched_off_has_no_objects() -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    with pytest.raises(StatusError):
        api.registry.client.resource("x.example.com", "things")
    api.registry.stores.off = {GroupResource("x.example.com", name): name == "things" for name in ("things", "betas")}
    warned: list[str] = []
    with patch.object(
        Stores, "log", SimpleNamespace(warn=lambda _, resource, user: warned.append(f"{resource} {user}"))
    ):
        for name in ("betas", "things", "things"):
            absent: Any = api.registry.client.named("u").resource("x.example.com", name)
        api.registry.client.named("v").resource("x.example.com", name)
    assert warned == ["things.x.example.com u", "things.x.example.com v"]
    assert (succeed(absent.list("a")), succeed(absent.list_at("a")), succeed(absent.count_at("a"))) == (
        [],
        ([], 0),
        (0, 0),
    )
    assert (absent.lister.get("a", "b"), absent.lister.list("a"), absent.lister.labelled({}, "a")) == (None, [], [])
    assert (absent.lister.changes, absent.history, absent.unreadable("a")) == (0, None, [])
    assert succeed(absent.delete_collection("a")) is None
    absent.watch(lambda *_: None, namespace="a")()
    for write in (
        absent.create({}), absent.update({}), absent.patch("a", {}), absent.apply("a", {}), absent.delete("a"), absent.get("a"),
    ):  # fmt: skip
        with pytest.raises(StatusError) as caught:
            succeed(write)
        assert caught.value.code == 404


def test_what_is_counted_is_not_decoded() -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    for number in range(3):
        body = {"metadata": {"name": f"m{number}"}}
        assert api.ask("POST", "/api/v1/namespaces/default/configmaps", body).code == 201
    counted: list[tuple[int, int]] = []

    async def count() -> None:
        maps = api.registry.client.resource("", "configmaps")
        counted.append(await maps.count_at("default"))
        counted.append(await maps.count_at("other"))

    succeed(count())
    entries, revision = api.registry.stores[GroupResource("", "configmaps")].cache.list()
    assert counted == [(3, revision), (0, revision)]
    assert not any(entry._object for entry in entries)
