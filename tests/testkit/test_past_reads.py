"""A logical cluster's past: objects and lists at a revision, and what has changed since."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.testing.cluster import LogicalCluster, RequestError

MAPS = "/api/v1/namespaces/default/configmaps"
pytestmark = pytest.mark.xdist_group("clusters")


@pytest.fixture
def cluster(cluster: LogicalCluster) -> LogicalCluster:
    cluster.settled()
    return cluster


def revision(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def test_objects_and_lists_are_what_they_were(cluster: LogicalCluster) -> None:
    first = cluster.request("POST", MAPS, {"metadata": {"name": "one"}, "data": {"a": "1"}})
    second = cluster.request("PUT", f"{MAPS}/one", {**first, "data": {"a": "2"}})
    other = cluster.request("POST", MAPS, {"metadata": {"name": "onefold"}})
    cluster.request("DELETE", f"{MAPS}/one")
    assert cluster.request("GET", f"{MAPS}/one?kapiRevision={revision(first)}") == first
    assert cluster.request("GET", f"{MAPS}/one?kapiRevision={revision(other)}") == second

    def names(at: int) -> list[str]:
        items = cluster.request("GET", f"{MAPS}?kapiRevision={at}")["items"]
        return [item["metadata"]["name"] for item in items if item["metadata"]["name"] != "kube-root-ca.crt"]

    assert names(revision(first) - 1) == []
    assert names(revision(second)) == ["one"]
    assert names(revision(other)) == ["one", "onefold"]
    assert names(revision(other) + 1) == ["onefold"]
    for at in (revision(first) - 1, revision(other) + 1):  # "onefold" comes where "one" would be
        with pytest.raises(RequestError, match='404 configmaps "one" not found'):
            cluster.request("GET", f"{MAPS}/one?kapiRevision={at}")
    version = f"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/x?kapiRevision={revision(first)}"
    assert cluster.request("GET", version, expect=(404,))["code"] == 404


def test_what_has_changed_between_two_revisions(cluster: LogicalCluster) -> None:
    for name in ("kept", "changed", "gone"):
        start = cluster.request("POST", MAPS, {"metadata": {"name": name}})
    since = revision(start)
    changed = cluster.request("PATCH", f"{MAPS}/changed", {"data": {"a": "1"}}, type="application/merge-patch+json")
    cluster.request("DELETE", f"{MAPS}/gone")
    cluster.request("POST", MAPS, {"metadata": {"name": "brief"}})
    cluster.request("DELETE", f"{MAPS}/brief")
    made = cluster.request("POST", MAPS, {"metadata": {"name": "made"}})
    found = {change["name"]: change["change"] for change in cluster.changes(since)}
    assert found == {"changed": "updated", "gone": "deleted", "made": "created"}
    [first] = cluster.changes(since, revision(changed))
    assert first == {
        "change": "updated", "group": "", "resource": "configmaps", "namespace": "default", "name": "changed",
        "revision": revision(changed),
    }  # fmt: skip
    assert cluster.changes(revision(made)) == []


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
