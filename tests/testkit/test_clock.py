"""A logical cluster's clock that a test moves."""

from __future__ import annotations

import urllib.parse
from pathlib import Path

import pytest

from kapi.machinery.time import seconds_of
from kapi.testing.cluster import Cluster, LogicalCluster, RequestError
from tests.integration.server_process import connect

_DAY = 86400.0


def created(cluster: Cluster, name: str) -> float:
    made = cluster.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
    return seconds_of(made["metadata"]["creationTimestamp"])


def test_objects_are_created_by_it(cluster: LogicalCluster, tmp_path: Path) -> None:
    before = created(cluster, "before")
    now = seconds_of(cluster.advance(_DAY))
    after = created(cluster, "after")
    assert now - before >= _DAY and after - before >= _DAY
    assert cluster.request("GET", "/kapi/clock")["ahead"] == _DAY
    root = Cluster(cluster.server, tmp_path)
    there = created(root, cluster.namespace)
    root.request("DELETE", f"/api/v1/namespaces/default/configmaps/{cluster.namespace}")
    assert there - before < _DAY


def test_events_expire_by_it(cluster: LogicalCluster) -> None:
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    cluster.request("POST", "/api/v1/namespaces/default/events", event)
    cluster.advance(3500)
    assert cluster.request("GET", "/api/v1/namespaces/default/events/e")["kind"] == "Event"
    cluster.advance(200)
    assert cluster.request("GET", "/api/v1/namespaces/default/events/e", expect=(404,))["code"] == 404


def test_controllers_wait_by_it(cluster: LogicalCluster) -> None:
    job = {
        "metadata": {"name": "j"},
        "spec": {
            "ttlSecondsAfterFinished": 36000,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    }
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    made = cluster.request("POST", jobs, job)
    stamp = made["metadata"]["creationTimestamp"]
    done = {"status": "True", "lastTransitionTime": stamp, "lastProbeTime": stamp}
    made["status"] = {
        "startTime": stamp,
        "completionTime": stamp,
        "succeeded": 1,
        "uncountedTerminatedPods": {},
        "conditions": [{"type": "SuccessCriteriaMet", **done}, {"type": "Complete", **done}],
    }
    cluster.request("PUT", f"{jobs}/j/status", made)
    cluster.advance(30000)
    cluster.settled()
    assert cluster.request("GET", f"{jobs}/j")["kind"] == "Job"
    cluster.advance(7000)
    cluster.settled()
    assert cluster.request("GET", f"{jobs}/j", expect=(404,))["code"] == 404


def test_tokens_expire_by_it(cluster: LogicalCluster) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = cluster.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]

    def review() -> bool:
        asked = {"spec": {"token": token}}
        found = cluster.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", asked)
        return bool(found["status"].get("authenticated"))

    assert review()
    cluster.advance(3500)
    assert review()
    cluster.advance(200)
    assert not review()
    token = cluster.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    assert review()


def test_watches_end_by_it(cluster: LogicalCluster) -> None:
    base = urllib.parse.urlsplit(cluster.url).path
    connection = connect(cluster.server, admin=True)
    connection.request("GET", f"{base}/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=3600")
    stream = connection.getresponse()
    try:
        cluster.advance(3500)
        created(cluster, "seen")
        while b'"seen"' not in (line := stream.readline()):
            assert line, "the watch ended too early"
        cluster.advance(200)
        assert stream.read() == b""
    finally:
        connection.close()


@pytest.mark.parametrize("body", [{"advance": "-1s"}, {"advance": "soon"}, {"advance": "900000h"}, {}, []])
def test_it_goes_ahead_only(cluster: LogicalCluster, body: object) -> None:
    with pytest.raises(RequestError, match='400 expected {"advance": "90s"}'):
        cluster.request("POST", "/kapi/clock", body)
    assert cluster.request("GET", "/kapi/clock")["ahead"] == 0
    refused = cluster.request("GET", "/kapi/clock", headers={"Impersonate-User": "jane"}, expect=(403,))
    assert refused["code"] == 403
