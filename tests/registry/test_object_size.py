"""No write leaves an object in the store that is larger than its limit; what is there from before can be changed and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import RequestTooLarge
from kapi.machinery.tree import Object
from kapi.registry.client import StoreClient
from kapi.registry.direct import modify
from kapi.request.user import LOOPBACK_USER
from kapi.testing.memory_api import MemoryAPI, succeed

MAPS = GroupResource("", "configmaps")
PATH = "/api/v1/namespaces/ns/configmaps"
LIMIT = 4000
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
def api() -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started())
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    api.store.max_object_bytes = LIMIT
    return api


def config(size: int, name: str = "a", **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"text": "x" * size},
    }


def stored_size(api: MemoryAPI, name: str = "a") -> int:
    entry = api.registry.stores[MAPS].cache.get("ns", name)
    return 0 if entry is None else len(entry.data)


def large(api: MemoryAPI, size: int = 3 * LIMIT, **metadata: Any) -> None:
    """An object from before there was a limit."""
    api.store.max_object_bytes = 0
    assert api.ask("POST", PATH, config(size, **metadata)).code == 201
    api.store.max_object_bytes = LIMIT


def test_a_create_is_refused_with_the_sizes(api: MemoryAPI) -> None:
    before = api.caches.revision
    answer = api.ask("POST", PATH, config(LIMIT))
    assert answer.code == 413
    status = answer.json
    assert status["reason"] == "RequestEntityTooLarge"
    assert status["message"].startswith('Request entity too large: configmaps "a" would be stored with 4')
    assert status["message"].endswith(f" bytes, managed fields included: limit is {LIMIT}")
    assert status["details"] == {"name": "a", "kind": "configmaps"}
    assert (stored_size(api), api.caches.revision) == (0, before)


@pytest.mark.parametrize(
    ("method", "suffix", "body", "media"),
    [
        ("PUT", "", config(LIMIT), ""),
        ("PATCH", "", {"data": {"more": "x" * LIMIT}}, MERGE),
        ("PATCH", "", [{"op": "add", "path": "/data/more", "value": "x" * LIMIT}], "application/json-patch+json"),
        ("PATCH", "?fieldManager=m", config(LIMIT), APPLY),
        ("PATCH", "", {"metadata": {"annotations": {"a": "x" * LIMIT}}}, MERGE),
    ],
)
def test_changes_are_refused(api: MemoryAPI, method: str, suffix: str, body: Any, media: str) -> None:
    assert api.ask("POST", PATH, config(10)).code == 201
    before = stored_size(api)
    assert api.ask(method, f"{PATH}/a{suffix}&force=true" if suffix else f"{PATH}/a", body, type=media).code == 413
    assert stored_size(api) == before


def test_managed_fields_count(api: MemoryAPI) -> None:
    """The body is below the limit; the names of its keys, once more in the managed fields, make the object too large."""
    assert api.ask("POST", PATH, {**config(0), "data": {f"key-{index}": "" for index in range(150)}}).code == 413


def test_a_status_is_refused(api: MemoryAPI) -> None:
    claims = "/api/v1/namespaces/ns/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    assert api.ask("POST", claims, {"metadata": {"name": "a"}, "spec": spec}).code == 201
    conditions = [{"type": f"t{index}", "status": "True", "message": "x" * 1000} for index in range(4)]
    answer = api.ask("PATCH", f"{claims}/a/status", {"status": {"conditions": conditions}}, type=MERGE)
    assert answer.code == 413


def test_writes_of_controllers_are_refused(api: MemoryAPI) -> None:
    store = api.registry.stores[MAPS]
    client = StoreClient(store, LOOPBACK_USER, "controller")
    with pytest.raises(RequestTooLarge):
        succeed(client.create(config(LIMIT), "ns"))
    succeed(client.create(config(10), "ns"))
    with pytest.raises(RequestTooLarge):
        succeed(client.update(config(LIMIT), "ns"))
    with pytest.raises(RequestTooLarge):
        succeed(modify(store, LOOPBACK_USER, "ns", "a", lambda obj: obj["data"].update(more="x" * LIMIT)))


def test_an_object_from_before_is_made_smaller_and_not_larger(api: MemoryAPI) -> None:
    large(api)
    assert api.ask("PATCH", f"{PATH}/a", {"data": {"more": "x" * 500}}, type=MERGE).code == 413
    assert api.ask("PATCH", f"{PATH}/a", {"data": {"text": "y" * LIMIT}}, type=MERGE).code == 200
    assert api.ask("PATCH", f"{PATH}/a", {"data": {"text": "y"}}, type=MERGE).code == 200
    assert stored_size(api) < LIMIT


def test_an_object_from_before_is_deleted(api: MemoryAPI) -> None:
    large(api)
    assert api.ask("DELETE", f"{PATH}/a").code == 200
    assert stored_size(api) == 0


@pytest.mark.parametrize("size", [3 * LIMIT, LIMIT - 500])
def test_finalizers_are_written_and_taken_away(api: MemoryAPI, size: int) -> None:
    """Also of an object at the limit: the time of its deletion and a manager's fields have room beyond it."""
    large(api, size, finalizers=["example.com/a", "example.com/b"])
    assert api.ask("DELETE", f"{PATH}/a", {"propagationPolicy": "Foreground"}).code == 200
    assert stored_size(api) > size
    for number, left in enumerate((["example.com/b", "foregroundDeletion"], ["foregroundDeletion"], [])):
        headers = {"User-Agent": f"controller-{number}/1"}
        patch = {"metadata": {"finalizers": left}}
        assert api.ask("PATCH", f"{PATH}/a", patch, type=MERGE, headers=headers).code == 200
    assert stored_size(api) == 0


def test_a_collection_with_large_objects_is_deleted(api: MemoryAPI) -> None:
    large(api)
    assert api.ask("DELETE", PATH).code == 200
    assert stored_size(api) == 0
