"""Objects of one cluster in another, as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kapi.testing.cluster import LogicalCluster, RequestError

CRD = Path(__file__).parents[2] / "docs" / "testing" / "examples" / "widgets.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def dumped(cluster: LogicalCluster, *paths: str) -> dict[str, Any]:
    """As ``kubectl get -o json`` writes it."""
    items = []
    for path in paths:
        found = cluster.request("GET", path)
        kind = found["kind"].removesuffix("List")
        items += [{"kind": kind, "apiVersion": found["apiVersion"], **item} for item in found["items"]]
    return {"kind": "List", "apiVersion": "v1", "items": items}


def without_revision(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}}


def test_they_keep_uids_owners_and_status(pair: list[LogicalCluster], tmp_path: Path) -> None:
    one, other = pair
    one.apply(CRD)
    widgets, maps = (
        f"/apis/example.com/v1/namespaces/{one.namespace}/widgets",
        f"/api/v1/namespaces/{one.namespace}/configmaps",
    )
    widget = one.request("POST", widgets, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": widget["metadata"]["uid"]}
    one.request("POST", maps, {"metadata": {"name": "m", "ownerReferences": [reference]}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    pods = f"/api/v1/namespaces/{one.namespace}/pods"
    made = one.request("POST", pods, pod)
    one.request("PUT", f"{pods}/p/status", {**made, "status": {**made["status"], "podIP": "192.0.2.7"}})
    file = tmp_path / "dump.json"
    paths = (
        widgets,
        maps,
        pods,
        f"/api/v1/namespaces/{one.namespace}/serviceaccounts",
        DEFINITIONS,
        "/api/v1/namespaces",
    )
    file.write_text(json.dumps(dumped(one, *paths)))
    other.take(file)
    for path in (widgets, maps, pods, DEFINITIONS):
        ours, theirs = (cluster.request("GET", path)["items"] for cluster in (one, other))
        assert [without_revision(obj) for obj in theirs] == [without_revision(obj) for obj in ours], path
    system = "/api/v1/namespaces/kube-system"
    assert other.request("GET", system)["metadata"]["uid"] == one.request("GET", system)["metadata"]["uid"]
    other.request("DELETE", f"{widgets}/w")
    other.settled()
    assert other.request("GET", f"{maps}/m", expect=(404,))["code"] == 404


def test_what_is_no_object_is_told(pair: list[LogicalCluster]) -> None:
    one, _ = pair
    good = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "good", "namespace": "default"}}
    bad = [
        {"kind": "Nothing", "apiVersion": "example.com/v1", "metadata": {"name": "x"}},
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "nowhere"}},
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "../up", "namespace": "default"}},
        {"kind": "ConfigMap", "apiVersion": "v1"},
        {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {"name": "x"}},
    ]
    answer = one.request("POST", "/kapi/objects", {"items": [*bad, good]})
    assert (answer["taken"], len(answer["refused"])) == (1, len(bad))
    assert one.request("GET", "/api/v1/namespaces/default/configmaps/good")["metadata"]["uid"]
    with pytest.raises(ValueError, match="Nothing x: no resource of example.com/v1"):
        one.take(bad[0])
    for body in ([], {}, {"items": 1}, {"items": [1]}):
        with pytest.raises(RequestError, match="400 expected a List"):
            one.request("POST", "/kapi/objects", body)
    jane = {"Impersonate-User": "jane"}
    assert one.request("POST", "/kapi/objects", {"items": []}, headers=jane, expect=(403,))["code"] == 403
