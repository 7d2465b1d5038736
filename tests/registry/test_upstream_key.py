"""Messages that show upstream's keys."""

from __future__ import annotations

import pytest

from kapi.machinery.gvk import GroupResource
from kapi.registry.errors import upstream_key
from kapi.testing.memory_api import MemoryAPI, succeed


@pytest.mark.parametrize(
    ("group", "resource", "key"),
    [
        ("", "pods", "/pods/ns/x"),
        ("", "nodes", "/minions/ns/x"),
        ("", "services", "/services/specs/ns/x"),
        ("apps", "deployments", "/deployments/ns/x"),
        ("networking.k8s.io", "ingresses", "/ingress/ns/x"),
        ("apiregistration.k8s.io", "apiservices", "/apiregistration.k8s.io/apiservices/ns/x"),
        ("example.com", "foos", "/example.com/foos/ns/x"),
    ],
)
def test_the_key(group: str, resource: str, key: str) -> None:
    assert upstream_key(GroupResource(group, resource), "ns", "x") == key


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize("namespace", [".", ".."])
def test_a_namespace_that_would_lead_elsewhere(method: str, namespace: str) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    body = {} if method == "PATCH" else None
    path = f"/api/v1/namespaces/{namespace}/configmaps/c"
    answer = api.ask(method, path, body, type="application/merge-patch+json")
    assert (answer.code, answer.json["message"]) == (500, f'invalid key: "/configmaps/{namespace}/c"')


def test_a_uid_that_is_another_ones() -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    node = api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}}).json
    node["metadata"]["uid"] = "other"
    answer = api.ask("PUT", "/api/v1/nodes/n", node)
    assert (answer.code, "Key: /registry/minions/n," in answer.json["message"]) == (409, True)
