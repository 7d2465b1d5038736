"""Deletes of the types that mark their deletion themselves: namespaces and CustomResourceDefinitions."""

from __future__ import annotations

import pytest

from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI, succeed

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VERSION: Object = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
NAMES = {"plural": "foos", "kind": "Foo"}
DEFINITION: Object = {
    "metadata": {"name": "foos.example.com"},
    "spec": {"group": "example.com", "scope": "Cluster", "names": NAMES, "versions": [VERSION]},
}
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


@pytest.fixture
def api() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started())
    return started


@pytest.mark.parametrize(
    ("path", "obj", "resource"),
    [
        ("/api/v1/namespaces", {"metadata": {"name": "n"}}, "namespaces"),
        (DEFINITIONS, DEFINITION, "customresourcedefinitions.apiextensions.k8s.io"),
    ],
)
@pytest.mark.parametrize(("field", "shown"), [("uid", "UID"), ("resourceVersion", "ResourceVersion")])
def test_preconditions(api: MemoryAPI, path: str, obj: Object, resource: str, field: str, shown: str) -> None:
    metadata = api.ask("POST", path, obj).json["metadata"]
    name = metadata["name"]
    refused = api.ask("DELETE", f"{path}/{name}", {"preconditions": {field: "99"}})
    assert (refused.code, refused.json["message"]) == (
        409,
        f'Operation cannot be fulfilled on {resource} "{name}": Precondition failed: {shown} in precondition: 99, '
        f"{shown} in object meta: {metadata[field]}",
    )
    assert api.ask("DELETE", f"{path}/{name}", {"preconditions": {field: metadata[field]}}).code == 200


def test_a_definition_is_deleted_again_as_other_objects_are(api: MemoryAPI) -> None:
    name = api.ask("POST", DEFINITIONS, DEFINITION).json["metadata"]["name"]
    first = api.ask("DELETE", f"{DEFINITIONS}/{name}").json["metadata"]
    assert (first["finalizers"], first.get("deletionGracePeriodSeconds")) == ([CLEANUP], None)
    second = api.ask("DELETE", f"{DEFINITIONS}/{name}", {"propagationPolicy": "Foreground"}).json["metadata"]
    assert (second["finalizers"], second["deletionGracePeriodSeconds"]) == ([CLEANUP, "foregroundDeletion"], 0)
    assert second["deletionTimestamp"] == first["deletionTimestamp"]
