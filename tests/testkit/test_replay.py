"""The writes of a run, recorded and sent once more to another cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kapi.testing.cluster import Cluster, RequestError
from kapi.testing.replay import replay, writes

MAPS = "/api/v1/namespaces/default/configmaps"
EVENT = {
    "stage": "ResponseComplete", "verb": "create", "requestURI": MAPS, "responseStatus": {"code": 201},
    "requestReceivedTimestamp": "2026-01-01T00:00:01.000000Z",
}  # fmt: skip


def test_a_run_comes_out_the_same_in_another_cluster(
    kapi: Cluster, kapi_factory: Callable[..., Cluster], tmp_path: Path
) -> None:
    owner = kapi.request("POST", MAPS, {"metadata": {"generateName": "some-"}, "data": {"a": "1", "b": "1"}})
    uid, name = owner["metadata"]["uid"], owner["metadata"]["name"]
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}]
    kapi.request("POST", MAPS, {"metadata": {"name": "owned", "ownerReferences": references}})
    changed = kapi.request("GET", f"{MAPS}/{name}")
    changed["data"]["a"] = "2"
    kapi.request("PUT", f"{MAPS}/{name}", changed)
    with pytest.raises(RequestError, match="409"):
        kapi.request("PUT", f"{MAPS}/{name}", owner)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    kapi.request("POST", "/api/v1/namespaces/default/pods", pod)
    more = {"spec": {"initContainers": [], "containers": [{"name": "c", "image": "j"}]}}
    for body, kind, path in (
        ([{"op": "remove", "path": "/data/b"}], "json-patch+json", f"{MAPS}/{name}"),
        ({"data": {"c": "3"}}, "merge-patch+json", f"{MAPS}/{name}"),
        (more, "strategic-merge-patch+json", "/api/v1/namespaces/default/pods/p"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"x": "y"}},
            "apply-patch+yaml",
            f"{MAPS}/applied?fieldManager=me",
        ),
    ):
        kapi.request("PATCH", path, body, type=f"application/{kind}")
    kapi.request("POST", MAPS, {"metadata": {"name": "gone"}})
    gone = kapi.request("GET", f"{MAPS}/gone")["metadata"]["uid"]
    kapi.request("DELETE", f"{MAPS}/gone", {"kind": "DeleteOptions", "preconditions": {"uid": gone}})
    kapi.record(tmp_path / "run.jsonl")

    other = kapi_factory()
    assert other.replay(tmp_path / "run.jsonl") == []
    kapi.settled()
    other.settled()

    def state(cluster: Cluster) -> list[Any]:
        maps = {one["metadata"]["name"]: one for one in cluster.request("GET", MAPS)["items"]}
        assert maps["owned"]["metadata"]["ownerReferences"][0]["uid"] == maps[name]["metadata"]["uid"]
        image = cluster.request("GET", "/api/v1/namespaces/default/pods/p")["spec"]["containers"][0]["image"]
        fields = sorted(
            (each["manager"], each["operation"])
            for one in maps.values()
            for each in one["metadata"].get("managedFields", ())
        )
        return [{key: one.get("data") for key, one in maps.items()}, image, fields]

    assert state(kapi) == state(other)
    assert set(state(other)[0]) == {"kube-root-ca.crt", name, "owned", "applied"}
    repeated = other.replay(tmp_path / "run.jsonl")
    assert any(line.startswith(f"POST {MAPS}: 201, now 409") for line in repeated)


def test_what_changed_nothing_is_left_out_and_order_is_that_of_arrival() -> None:
    later = {**EVENT, "requestReceivedTimestamp": "2026-01-01T00:00:02.000000Z"}
    nothing = [
        {**EVENT, "verb": "get"}, {**EVENT, "stage": "RequestReceived"}, {**EVENT, "responseStatus": {"code": 409}},
        {**EVENT, "requestURI": f"{MAPS}?dryRun=All"}, {**EVENT, "objectRef": {"subresource": "exec"}},
    ]  # fmt: skip
    assert writes([later, *nothing, EVENT]) == [EVENT, later]


@pytest.mark.parametrize(
    ("group", "body", "kind"),
    [
        ("", [{"op": "test"}], "json-patch+json"),
        ("", {"apiVersion": "v1", "kind": "ConfigMap"}, "apply-patch+yaml"),
        ("apps", {"spec": {}}, "strategic-merge-patch+json"),
        ("rbac.authorization.k8s.io", {"rules": []}, "strategic-merge-patch+json"),
        ("example.com", {"spec": {}}, "merge-patch+json"),
    ],
)
def test_how_patches_of_other_servers_are_sent(group: str, body: Any, kind: str) -> None:
    sent: list[tuple[str, ...]] = []

    def send(*asked: str) -> tuple[int, Any]:
        sent.append(asked)
        return 200, {}

    patch = {**EVENT, "verb": "patch", "requestObject": body, "objectRef": {"apiGroup": group, "resource": "things"}}
    assert list(replay([patch], send)) == []
    assert [(method, media_type) for method, _, _, media_type in sent] == [("PATCH", f"application/{kind}")]
