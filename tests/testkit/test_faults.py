"""Faults on command, in a server of its own process: what a client sees of them, and what the server has done."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kapi.testing.cluster import Cluster, RequestError
from kapi.testing.process import KapiProcess
from tests.integration.server_process import ForkedServer, connect

_RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def faulty() -> Iterator[KapiProcess]:
    with ForkedServer("--testbed", "--enable-fault-injection") as server:
        yield server


@pytest.fixture
def cluster(faulty: KapiProcess, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(faulty, tmp_path)
    cluster.open()
    yield cluster
    cluster.close()


def maps(cluster: Cluster) -> str:
    return f"/api/v1/namespaces/{cluster.namespace}/configmaps"


def make(cluster: Cluster, name: str) -> Any:
    return cluster.request("POST", maps(cluster), {"metadata": {"name": name}})


def names(cluster: Cluster) -> list[str]:
    items = cluster.request("GET", maps(cluster))["items"]
    return [item["metadata"]["name"] for item in items if item["metadata"]["name"] != "kube-root-ca.crt"]


def test_a_refusal_before_anything_happens(cluster: Cluster) -> None:
    match = {"verb": "create", "resource": "configmaps"}
    with cluster.fault(match, status=429, retryAfterSeconds=7, skip=1, times=1):
        make(cluster, "one")
        with pytest.raises(RequestError) as caught:
            make(cluster, "two")
        make(cluster, "three")
    assert (caught.value.code, caught.value.status["reason"]) == (429, "TooManyRequests")
    assert caught.value.status["details"] == {"retryAfterSeconds": 7}
    assert names(cluster) == ["one", "three"]


@pytest.mark.parametrize("rule", [{"status": 504}, {"close": True}])
def test_an_answer_that_is_lost_after_the_write(cluster: Cluster, rule: dict[str, Any]) -> None:
    with (
        cluster.fault({"verb": "create"}, when="after", **rule),
        pytest.raises((RequestError, http.client.HTTPException, OSError)),
    ):
        make(cluster, "one")
    assert names(cluster) == ["one"]


def test_a_connection_that_is_closed_before_the_write(cluster: Cluster) -> None:
    with cluster.fault({"verb": "create"}, close=True), pytest.raises((http.client.HTTPException, OSError)):
        make(cluster, "one")
    assert names(cluster) == []


def test_nothing_is_sent_on_a_connection_after_its_close(cluster: Cluster) -> None:
    """Not even to a client that reads late, and finds all that has come."""
    body, headers = json.dumps({"metadata": {"name": "one"}}), {"Content-Type": "application/json"}
    for _ in range(10):
        with cluster.fault({"verb": "create"}, close=True), closing(connect(cluster.server, admin=True)) as connection:
            connection.request("POST", maps(cluster), body, headers)
            time.sleep(0.05)
            with pytest.raises(OSError):
                connection.getresponse()


def test_latency(cluster: Cluster) -> None:
    with cluster.fault({"verb": "get"}, delay="500ms", times=1):
        begun = time.monotonic()
        cluster.request("GET", f"{maps(cluster)}/none", expect=(404,))
        assert time.monotonic() - begun >= 0.5


def test_a_watch_that_begins_with_410(cluster: Cluster) -> None:
    with cluster.fault({"verb": "watch"}, watch="expired"):
        event = cluster.request("GET", f"{maps(cluster)}?watch=1")
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_watches_that_end_with_410(cluster: Cluster) -> None:
    """One that is under way when the rule comes, and a new one."""
    make(cluster, "first")
    path = f"{maps(cluster)}?watch=1&timeoutSeconds=30&fieldSelector=metadata.name%3Dfirst"
    connections = [connect(cluster.server, admin=True) for _ in "ab"]
    try:
        ends = []
        connections[0].request("GET", path)
        running = connections[0].getresponse()
        assert json.loads(running.readline())["type"] == "ADDED"  # it is under way
        with cluster.fault({"verb": "watch"}, watch="expired", watchAfter="200ms"):
            connections[1].request("GET", path)
            new = connections[1].getresponse()
            assert json.loads(new.readline())["type"] == "ADDED"
            ends = [running.read(), new.read()]
    finally:
        for connection in connections:
            connection.close()
    for end in map(json.loads, ends):
        assert (end["type"], end["object"]["code"], end["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_a_watch_that_is_cut(cluster: Cluster) -> None:
    with (
        cluster.fault({"verb": "watch"}, watch="cut", watchAfter="100ms"),
        pytest.raises((http.client.HTTPException, OSError)),
    ):
        cluster.request("GET", f"{maps(cluster)}?watch=1&timeoutSeconds=30")


def test_a_watch_that_is_held_back(cluster: Cluster) -> None:
    revision = make(cluster, "first")["metadata"]["resourceVersion"]
    make(cluster, "second")
    uri = f"{maps(cluster)}?watch=1&resourceVersion={revision}"
    with (
        cluster.fault({"verb": "watch"}, watch="hold", watchFor="300ms"),
        closing(connect(cluster.server, admin=True)) as connection,
    ):
        begun = time.monotonic()
        connection.request("GET", uri)
        event = json.loads(connection.getresponse().readline())
        assert time.monotonic() - begun >= 0.3
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "second")
    with cluster.fault({"verb": "watch"}, watch="hold"), pytest.raises(ValueError, match="char 0"):  # nothing came
        cluster.request("GET", f"{uri}&timeoutSeconds=1")


def test_a_list_of_an_older_revision(cluster: Cluster) -> None:
    revision = int(make(cluster, "old")["metadata"]["resourceVersion"])
    make(cluster, "new")
    with cluster.fault({"verb": "list"}, listRevision=revision):
        assert names(cluster) == ["old"]
    assert names(cluster) == ["new", "old"]


def test_rules_are_told_and_removed(cluster: Cluster) -> None:
    with cluster.fault({"verb": "get"}, status=500) as name:
        rule = cluster.request("GET", "/kapi/faults")["rules"][name]
        assert (rule["status"], rule["match"]["namespace"]) == (500, cluster.namespace)
    assert cluster.request("GET", "/kapi/faults")["rules"] == {}
    with pytest.raises(RequestError, match="no rule"):
        cluster.request("POST", "/kapi/faults", {"status": 200})


def test_only_masters_may(cluster: Cluster) -> None:
    """Not even somebody whom RBAC lets do everything."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "everything"}}
    binding = {**role, "kind": "ClusterRoleBinding", "subjects": [{"kind": "Group", "name": "ops", "apiGroup": _RBAC}]}
    cluster.apply({**role, "rules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}]})
    cluster.apply({**binding, "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "everything"}})
    bob = {"Impersonate-User": "bob", "Impersonate-Group": "ops"}
    assert cluster.request("GET", "/kapi/settled", headers=bob)["revision"]
    with pytest.raises(RequestError) as caught:
        cluster.request("GET", "/kapi/faults", headers=bob)
    assert caught.value.code == 403
