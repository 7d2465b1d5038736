"""Snapshots of logical clusters: forks and resets, in a server of its own process."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapi.testing.cluster import Cluster, LogicalCluster, RequestError
from kapi.testing.process import KapiProcess
from tests.integration.server_process import connect

CRD = Path(__file__).parents[2] / "docs" / "testing" / "examples" / "widgets.yaml"
MAPS = "/api/v1/namespaces/default/configmaps"
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
Make = Callable[..., LogicalCluster]


@pytest.fixture
def make(server: KapiProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    made = []

    def make(origin: str = "") -> LogicalCluster:
        cluster = LogicalCluster(server, tmp_path_factory.mktemp("cluster"), origin=origin)
        cluster.open()
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


def names(cluster: Cluster, path: str = MAPS) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.request("GET", path)["items"]]


def put(cluster: Cluster, name: str, **data: str) -> dict[str, Any]:
    made: dict[str, Any] = cluster.request("POST", MAPS, {"metadata": {"name": name}, "data": data})
    return made


def test_forks_begin_alike_and_go_apart(make: Make) -> None:
    source = make()
    source.apply(CRD)
    source.request("POST", WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    first = put(source, "one", a="1")
    taken = source.snapshot("base")
    put(source, "later")
    fork, other = make("base"), make("base")
    for cluster in (fork, other):
        assert names(cluster) == ["kube-root-ca.crt", "one"]
        assert names(cluster, WIDGETS) == ["w"]
        assert cluster.request("GET", f"{MAPS}/one") == first
    changed = fork.request("PUT", f"{MAPS}/one", {**first, "data": {"a": "2"}})
    assert int(changed["metadata"]["resourceVersion"]) > taken["revision"]
    fork.request("DELETE", f"{WIDGETS}/w")
    assert other.request("GET", f"{MAPS}/one")["data"] == source.request("GET", f"{MAPS}/one")["data"] == {"a": "1"}
    assert names(other, WIDGETS) == ["w"]
    with pytest.raises(RequestError, match="409 "):
        other.request("PUT", f"{MAPS}/one", changed)


def test_a_reset_brings_back_what_was_there(make: Make) -> None:
    cluster = make()
    kept = put(cluster, "kept")
    cluster.snapshot("before")
    put(cluster, "added")
    last = int(cluster.request("DELETE", f"{MAPS}/kept")["metadata"].get("resourceVersion", 0) or 0)
    cluster.reset("before")
    found = cluster.request("GET", MAPS)
    assert [item["metadata"]["uid"] for item in found["items"] if item["metadata"]["name"] == "kept"] == [
        kept["metadata"]["uid"]
    ]
    assert "added" not in names(cluster)
    assert int(found["metadata"]["resourceVersion"]) > last
    assert int(put(cluster, "added")["metadata"]["resourceVersion"]) > int(found["metadata"]["resourceVersion"])
    name = cluster.create_namespace()
    assert cluster.wait(lambda: names(cluster, f"/api/v1/namespaces/{name}/serviceaccounts"))


def test_watches_of_a_cluster_that_is_reset_are_told_to_list_again(make: Make) -> None:
    cluster = make()
    cluster.snapshot("empty")
    base = urllib.parse.urlsplit(cluster.url).path
    revision = put(cluster, "one")["metadata"]["resourceVersion"]
    connection = connect(cluster.server, admin=True)
    connection.request("GET", f"{base}{MAPS}?watch=1&resourceVersion={revision}")
    stream = connection.getresponse()
    cluster.reset("empty")
    event = json.loads(stream.readline())
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    connection.close()
    gone = cluster.request("GET", f"{MAPS}?watch=1&resourceVersion={revision}&timeoutSeconds=1")
    assert gone["object"]["code"] == 410


def test_a_file_holds_a_snapshot(make: Make, tmp_path: Path) -> None:
    source = make()
    source.apply(CRD)
    source.request("POST", WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    for number in range(3):
        put(source, f"large-{number}", text="x" * 900_000)
    taken = source.snapshot("large")
    file = tmp_path / "large.jsonl"
    source.save("large", file)
    source.load("again", file)
    copy = make("again")
    for path in (MAPS, WIDGETS, "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles"):
        there = [item for item in copy.request("GET", path)["items"] if item["metadata"]["name"] != copy.namespace]
        assert there == source.request("GET", path)["items"], path
    root = Cluster(source.server, tmp_path)
    assert root.request("GET", "/snapshots/again") == {**taken, "name": "again"}


def test_they_are_listed_and_removed(make: Make, tmp_path: Path) -> None:
    source = make()
    root = Cluster(source.server, tmp_path)
    taken = source.snapshot("named")
    assert taken in root.request("GET", "/snapshots")["snapshots"]
    root.request("DELETE", "/snapshots/named")
    for method, path, body in (
        ("GET", "/snapshots/named", None),
        ("PUT", "/clusters/new", {"from": "named"}),
        ("PATCH", f"/clusters/{source.name}", {"from": "named"}),
        ("PUT", "/snapshots/other", {"cluster": "nobody"}),
    ):
        with pytest.raises(RequestError, match="404 there is no"):
            root.request(method, path, body)
    for body in ({}, [], {"cluster": 1}):
        with pytest.raises(RequestError, match="40[04] "):
            root.request("PUT", "/snapshots/other", body)
    good = {"key": "core/configmaps/default/a", "revision": 1, "object": OBJECT}
    for wrong in (
        {"key": "a/b"}, {"key": 1}, {"revision": "1"}, {"revision": 0}, {"revision": 1.5}, {"revision": 2**63 - 1},
        {"object": 1}, {"object": {"metadata": {}}}, {"expires": "soon"}, {"charged": "1"}, {"counted": -1},
    ):  # fmt: skip
        with pytest.raises(RequestError, match="400 expected"):
            root.request("PUT", "/snapshots/other", json.dumps({**good, **wrong}), type="application/x-kapi-snapshot")
    root.request("PUT", "/snapshots/other", json.dumps(good), type="application/x-kapi-snapshot")
    root.request("DELETE", "/snapshots/other")
    jane = {"Impersonate-User": "jane"}
    assert root.request("GET", "/snapshots", headers=jane, expect=(403,))["code"] == 403
