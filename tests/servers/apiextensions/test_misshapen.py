"""A stored definition that is JSON of another shape concerns nobody but itself."""

from __future__ import annotations

import json

import pytest

from kapi.testing.memory_api import MemoryAPI, succeed
from tests.servers.apiextensions.conftest import serve_custom_resources
from tests.servers.apiextensions.definition_kit import DEFINITIONS, FOOS, create, definition, install

HEAD = b'{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"resourceVersion":"'
OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential=true"


def put(api: MemoryAPI, name: str, rest: bytes) -> None:
    tail = b'","name":"%s","uid":"u"},%s}' % (name.encode(), rest)
    succeed(api.store.create(f"apiextensions.k8s.io/customresourcedefinitions//{name}", HEAD, tail))


@pytest.mark.parametrize(
    "rest",
    [
        b'"spec":{"group":5,"versions":7}',
        b'"spec":{"group":"example.com","names":[],"versions":[1]}',
        b'"spec":null,"status":{"conditions":"x"}',
        b'"spec":{"group":"example.com","names":{},"versions":[]},"status":{"conditions":[5]}',
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_others_are_served(rest: bytes, before: bool) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    if before:
        put(api, "bad.example.com", rest)
    serve_custom_resources(api)
    if not before:
        put(api, "bad.example.com", rest)
    install(api, definition())
    create(api, "a", {"size": 1})
    assert [item["metadata"]["name"] for item in api.ask("GET", FOOS).json["items"]] == ["a"]
    assert [item["metadata"]["name"] for item in api.ask("GET", DEFINITIONS).json["items"]] == ["foos.example.com"]
    assert "object not decodable" in api.ask("GET", f"{DEFINITIONS}/bad.example.com").json["message"]
    assert api.ask("DELETE", f"{DEFINITIONS}/bad.example.com?{OPTION}").code == 200
    api.turn()
    assert api.ask("GET", f"{DEFINITIONS}/bad.example.com").code == 404


def test_objects_that_another_program_stored_without_a_uid_can_be_changed_and_deleted() -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    serve_custom_resources(api)
    install(api, definition())
    path = f"{DEFINITIONS}/foos.example.com"
    stored = api.ask("GET", path).json
    key = "apiextensions.k8s.io/customresourcedefinitions//foos.example.com"
    metadata = {"name": "foos.example.com", "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]}
    rest = {"metadata": metadata, "spec": stored["spec"], "status": stored["status"]}
    tail = b'",' + json.dumps(rest)[len('{"metadata": {') :].encode()
    succeed(api.store.update(key, int(stored["metadata"]["resourceVersion"]), HEAD, tail))
    head = b'{"kind":"Foo","apiVersion":"example.com/v1","metadata":{"resourceVersion":"'
    succeed(api.store.create("example.com/foos/n/a", head, b'","name":"a","namespace":"n"},"spec":{"size":1}}'))
    api.turn()
    foo = f"{FOOS}/a"
    changed = api.ask("PATCH", foo, {"spec": {"size": 2}}, type="application/merge-patch+json")
    assert (changed.code, changed.json["spec"]) == (200, {"size": 2})
    assert "uid" not in changed.json["metadata"]
    refused = api.ask("DELETE", foo, {"preconditions": {"uid": "u"}})
    assert refused.code == 409
    assert "the UID in record ()" in refused.json["message"]
    assert api.ask("DELETE", path).code == 200
    for _ in range(10):
        api.turn(0.1)
    assert api.ask("GET", path).code == 404
