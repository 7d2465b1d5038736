"""What a change of a large object leaves behind is named to who frees it in steps."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.codecs.json_reading import loads_exactly
from kapi.machinery import freeing
from kapi.testing.memory_api import MemoryAPI, succeed

MAPS = "/api/v1/namespaces/n/configmaps"
MERGE, STRATEGIC, JSON = (f"application/{name}+json" for name in ("merge-patch", "strategic-merge-patch", "json-patch"))
CHANGES: dict[str, Any] = {
    MERGE: {"data": {"k1": "w"}},
    STRATEGIC: {"data": {"k1": "w"}},
    JSON: [{"op": "replace", "path": "/data/k1", "value": "w"}],
}


@pytest.mark.parametrize("changes", [True, False])
@pytest.mark.parametrize("kind", CHANGES)
def test_the_trees_of_a_patch(monkeypatch: pytest.MonkeyPatch, kind: str, changes: bool) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    for name, count in (("large", 20_000), ("small", 10)):
        data = {f"k{number}": "v" * 20 for number in range(count)}
        data["k1"] = "v" if changes else "w"
        assert api.ask("POST", MAPS, {"metadata": {"name": name}, "data": data}).code == 201
    taken: list[Any] = []
    monkeypatch.setattr(freeing, "collector", taken.append)
    assert api.ask("PATCH", f"{MAPS}/small", CHANGES[kind], type=kind).code == 200
    assert not taken
    assert api.ask("PATCH", f"{MAPS}/large", CHANGES[kind], type=kind).code == 200
    trees = {id(tree) for tree in taken if "metadata" in tree and len(tree["data"]) == 20_000}
    assert len(trees) >= 2, "the object as patched, and as it was decoded anew"


def test_the_copy_of_an_object_that_waits_for_its_finalizers(monkeypatch: pytest.MonkeyPatch) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    data = {f"k{number}": "v" * 20 for number in range(20_000)}
    assert api.ask("POST", MAPS, {"metadata": {"name": "large", "finalizers": ["a/b"]}, "data": data}).code == 201
    taken: list[Any] = []
    monkeypatch.setattr(freeing, "collector", taken.append)
    assert api.ask("DELETE", f"{MAPS}/large").code == 200
    assert any("deletionTimestamp" in tree["metadata"] for tree in taken if "metadata" in tree)


def test_the_tree_of_a_body_whose_numbers_are_read_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(freeing, "collector", taken.append)
    tree = loads_exactly(b"[" + b",".join([b"1.0"] * 70_000) + b"]")
    assert any(one is tree for one in taken)
