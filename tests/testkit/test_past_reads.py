"""The past of a logical cluster and of the server's own: objects and lists at a revision, and what has changed since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapi.testing.cluster import Cluster, LogicalCluster, RequestError
from kapi.testing.process import KapiProcess

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def cluster(cluster: LogicalCluster) -> LogicalCluster:
    cluster.settled()
    return cluster


@pytest.fixture(params=[LogicalCluster, Cluster])
def either(request: pytest.FixtureRequest, server: KapiProcess, tmp_path: Path) -> Iterator[Cluster]:
    """A logical cluster, or the server's own."""
    cluster: Cluster = request.param(server, tmp_path)
    cluster.open()
    cluster.settled()
    yield cluster
    cluster.close()


def revision(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def test_objects_and_lists_are_what_they_were(either: Cluster) -> None:
    maps = f"/api/v1/namespaces/{either.namespace}/configmaps"
    first = either.request("POST", maps, {"metadata": {"name": "one"}, "data": {"a": "1"}})
    second = either.request("PUT", f"{maps}/one", {**first, "data": {"a": "2"}})
    other = either.request("POST", maps, {"metadata": {"name": "onefold"}})
    either.request("DELETE", f"{maps}/one")
    # A server writes for itself, too: the deletion need not be the next revision.
    [gone] = [change["revision"] for change in either.changes(revision(other)) if change["name"] == "one"]
    assert either.request("GET", f"{maps}/one?kapiRevision={revision(first)}") == first
    assert either.request("GET", f"{maps}/one?kapiRevision={revision(other)}") == second

    def names(at: int) -> list[str]:
        items = either.request("GET", f"{maps}?kapiRevision={at}")["items"]
        return [item["metadata"]["name"] for item in items if item["metadata"]["name"] != "kube-root-ca.crt"]

    assert names(revision(first) - 1) == []
    assert names(revision(second)) == ["one"]
    assert names(revision(other)) == ["one", "onefold"]
    assert names(gone) == ["onefold"]
    for at in (revision(first) - 1, gone):  # "onefold" comes where "one" would be
        with pytest.raises(RequestError, match='404 configmaps "one" not found'):
            either.request("GET", f"{maps}/one?kapiRevision={at}")
    version = f"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/x?kapiRevision={revision(first)}"
    assert either.request("GET", version, expect=(404,))["code"] == 404


def test_what_has_changed_between_two_revisions(either: Cluster) -> None:
    maps = f"/api/v1/namespaces/{either.namespace}/configmaps"
    for name in ("kept", "changed", "gone"):
        start = either.request("POST", maps, {"metadata": {"name": name}})
    since = revision(start)
    changed = either.request("PATCH", f"{maps}/changed", {"data": {"a": "1"}}, type="application/merge-patch+json")
    either.request("DELETE", f"{maps}/gone")
    either.request("POST", maps, {"metadata": {"name": "brief"}})
    either.request("DELETE", f"{maps}/brief")
    made = either.request("POST", maps, {"metadata": {"name": "made"}})

    def changes(since: int, until: int = 0) -> list[dict[str, Any]]:
        """Those of the test: a server writes for itself, too."""
        place = "configmaps", either.namespace
        return [one for one in either.changes(since, until) if (one["resource"], one["namespace"]) == place]

    found = {change["name"]: change["change"] for change in changes(since)}
    assert found == {"changed": "updated", "gone": "deleted", "made": "created"}
    [first] = changes(since, revision(changed))
    assert first == {
        "change": "updated", "group": "", "resource": "configmaps", "namespace": either.namespace, "name": "changed",
        "revision": revision(changed),
    }  # fmt: skip
    assert changes(revision(made)) == []


def test_what_cannot_be_told_is_refused(cluster: LogicalCluster) -> None:
    made = cluster.request("POST", MAPS, {"metadata": {"name": "one"}})
    for path, code in (
        (f"{MAPS}/one?kapiRevision=1", 410),
        (f"{MAPS}?kapiRevision=1", 410),
        ("/kapi/changes?from=1", 410),
        ("/kapi/changes?from=x", 400),
        ("/kapi/changes", 400),
        (f"{MAPS}/one?kapiRevision=soon", 400),
        (f"{MAPS}?watch=1&kapiRevision={revision(made)}", 400),
        (f"/api/v1/namespaces/default/status?kapiRevision={revision(made)}", 400),
    ):
        with pytest.raises(RequestError, match=f"{code} "):
            cluster.request("GET", path)
    with pytest.raises(RequestError, match="400 "):
        cluster.request("DELETE", f"{MAPS}/one?kapiRevision={revision(made)}")
    jane = {"Impersonate-User": "jane"}
    assert cluster.request("GET", "/kapi/changes?from=1", headers=jane, expect=(403,))["code"] == 403
