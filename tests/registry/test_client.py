"""The client inside the process."""

from __future__ import annotations

from typing import Any

from kapi.machinery.gvk import GroupResource
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
