"""``kubectl delete --cascade``, and what goes with an owner, in a server of its own process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, Kubectl, ServerProcess, api_request
from tests.waiting import until

MANY = 600  # more than a page of kubectl
SECONDS = 60.0  # for what happens beside the requests


def names(kubectl: Kubectl) -> list[str]:
    """Of the ConfigMaps."""
    code, found = api_request(kubectl.server, "GET", f"api/v1/namespaces/{kubectl.namespace}/configmaps")
    assert code == 200, found
    here = [item["metadata"]["name"] for item in json.loads(found)["items"]]
    return [name for name in here if name != "kube-root-ca.crt"]


def make(kubectl: Kubectl, *dependents: str, kind: str = "ConfigMap", api_version: str = "v1") -> None:
    """An owner and what it owns."""
    owner: dict[str, Any] = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "owner"}}
    made = json.loads(kubectl.run("create", "-f", "-", "-o", "json", stdin=json.dumps(owner)))
    reference = {
        "apiVersion": api_version, "kind": kind, "name": "owner", "uid": made["metadata"]["uid"], "blockOwnerDeletion": True
    }  # fmt: skip
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [reference]}}
        for name in dependents
    ]
    kubectl.run("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_dependents_go_with_their_owner(kubectl: Kubectl, cascade: str) -> None:
    make(kubectl, "one", "two")
    kubectl.run("delete", "configmap", "owner", f"--cascade={cascade}")
    until(lambda: names(kubectl) == [])


def test_orphans_stay(kubectl: Kubectl) -> None:
    make(kubectl, "one", "two")
    kubectl.run("delete", "configmap", "owner", "--cascade=orphan")
    assert names(kubectl) == ["one", "two"]
    assert kubectl.run("get", "configmaps", "-o", "jsonpath={.items[*].metadata.ownerReferences}") == ""


def test_hundreds_of_dependents_go(kubectl: Kubectl) -> None:
    make(kubectl, *(f"d{number}" for number in range(MANY)))
    kubectl.run("delete", "configmap", "owner")
    until(lambda: names(kubectl) == [])


def test_custom_resources_own_too(kubectl: Kubectl) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "owners.gc.example.com"},
        "spec": {
            "group": "gc.example.com",
            "scope": "Namespaced",
            "names": {"plural": "owners", "kind": "Owner"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    kubectl.run("create", "-f", "-", stdin=json.dumps(crd))
    kubectl.run("wait", "--for=condition=Established", "crd/owners.gc.example.com")
    make(kubectl, "one", kind="Owner", api_version="gc.example.com/v1")
    kubectl.run("delete", "owners.gc.example.com", "owner")
    until(lambda: names(kubectl) == [])
    make(kubectl, "two", kind="Owner", api_version="gc.example.com/v1")
    kubectl.run("delete", "crd", "owners.gc.example.com")
    until(lambda: names(kubectl) == [])


@pytest.mark.parametrize(
    "flag", ["--enable-garbage-collector=false", "--controllers=*,-garbage-collector-controller", "--controllers="]
)
def test_it_is_turned_off(server: ServerProcess, flag: str) -> None:
    """So that a kube-controller-manager beside it finds everything to be done."""
    hook = b"poststarthook/garbage-collector-controller"
    assert hook in api_request(server, "GET", "readyz?verbose")[1]
    with ForkedServer(flag) as without:
        checks = api_request(without, "GET", "readyz?verbose")[1]
        assert b"poststarthook" in checks and hook not in checks


def test_what_was_left_while_the_server_was_away_is_collected(kubectl_binary: str) -> None:
    server = ForkedServer("--controllers=").start()
    try:
        kubectl = Kubectl(server, kubectl_binary, "default")
        make(kubectl, "one")
        kubectl.run("delete", "configmap", "owner")
        assert names(kubectl) == ["one"]
        server.end()
        server.flags = [flag for flag in server.flags if flag != "--controllers="]
        server.start()
        until(lambda: names(kubectl) == [])
    finally:
        server.stop()
