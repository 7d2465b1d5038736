"""Logical clusters, in a server of its own process: each is a cluster as any other, and knows nothing of its neighbours."""

from __future__ import annotations

import json
import threading
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from kapi.testing.cluster import Cluster, LogicalCluster, RequestError
from kapi.testing.process import KapiProcess
from tests.integration.server_process import connect

ROOT = Path(__file__).parents[2]
CRD = ROOT / "docs" / "testing" / "examples" / "widgets.yaml"
_RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def root(server: KapiProcess, tmp_path: Path) -> Cluster:
    """The server itself."""
    return Cluster(server, tmp_path)


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


MAPS = "/api/v1/namespaces/default/configmaps"


def test_objects_are_seen_in_their_cluster_alone(root: Cluster, pair: list[LogicalCluster]) -> None:
    one, other = pair
    made = one.request("POST", MAPS, config_map("mine"))
    assert one.request("GET", f"{MAPS}/mine")["metadata"]["uid"] == made["metadata"]["uid"]
    for elsewhere in (other, root):
        assert elsewhere.request("GET", f"{MAPS}/mine", expect=(404,))["code"] == 404
    assert other.request("POST", MAPS, config_map("mine"))["metadata"]["uid"] != made["metadata"]["uid"]


def test_a_fresh_one_has_what_every_cluster_has(root: Cluster, pair: list[LogicalCluster]) -> None:
    def names(cluster: Cluster, path: str) -> set[str]:
        return {item["metadata"]["name"] for item in cluster.request("GET", path)["items"]}

    one, other = pair
    for path in (
        f"/apis/{_RBAC}/v1/clusterroles", f"/apis/{_RBAC}/v1/clusterrolebindings", "/api/v1/namespaces/default/services",
        "/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/apiregistration.k8s.io/v1/apiservices", "/api/v1/namespaces/default/serviceaccounts",
    ):  # fmt: skip
        assert names(one, path) == names(root, path), path
    namespaces = names(one, "/api/v1/namespaces")
    assert namespaces == {"default", "kube-system", "kube-public", "kube-node-lease", one.namespace}
    system = "/api/v1/namespaces/kube-system"
    assert len({cluster.request("GET", system)["metadata"]["uid"] for cluster in (root, one, other)}) == 3


def test_definitions_are_of_one_cluster(root: Cluster, pair: list[LogicalCluster]) -> None:
    one, other = pair
    one.apply(CRD)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    path = "/apis/example.com/v1/namespaces/default/widgets"
    one.request("POST", path, widget)
    assert [group["name"] for group in one.request("GET", "/apis")["groups"] if "example" in group["name"]]
    assert "/openapi/v3/apis/example.com/v1" in str(one.request("GET", "/openapi/v3"))
    for elsewhere in (other, root):
        assert elsewhere.request("GET", path, expect=(404,)) == "404 page not found\n"
        assert "example.com" not in str(elsewhere.request("GET", "/apis"))


def test_controllers_keep_their_promises(pair: list[LogicalCluster]) -> None:
    one, _ = pair
    name = one.create_namespace()
    assert one.wait(lambda: one.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts")["items"])
    owner = one.request("POST", MAPS, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    one.request("POST", MAPS, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    one.request("DELETE", f"{MAPS}/owner")
    one.request("DELETE", f"/api/v1/namespaces/{name}")
    one.settled()
    assert one.request("GET", f"{MAPS}/owned", expect=(404,))["code"] == 404
    assert one.request("GET", f"/api/v1/namespaces/{name}", expect=(404,))["code"] == 404


def anonymous(cluster: Cluster, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    """Asked without a client certificate."""
    base = urllib.parse.urlsplit(cluster.url).path
    connection = connect(cluster.server)
    try:
        connection.request("GET", base + path, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text
    finally:
        connection.close()


def test_a_token_and_a_role_count_in_their_cluster_alone(root: Cluster, pair: list[LogicalCluster]) -> None:
    one, other = pair
    token = one.request("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})["status"][
        "token"
    ]
    headers = {"Authorization": f"Bearer {token}"}
    assert anonymous(one, MAPS, headers)[0] == 403
    binding = {
        "metadata": {"name": "readers", "namespace": "default"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    for cluster in pair:
        cluster.request("POST", f"/apis/{_RBAC}/v1/namespaces/default/rolebindings", binding)
    assert one.wait(lambda: anonymous(one, MAPS, headers)[0] == 200)
    assert anonymous(other, MAPS, headers)[0] == 401
    assert anonymous(root, MAPS, headers)[0] == 401
    assert anonymous(other, MAPS, {})[1]["message"].startswith("configmaps is forbidden")


def test_who_is_nobody_there_does_not_wake_a_cluster(root: Cluster, pair: list[LogicalCluster], tmp_path: Path) -> None:
    origin = pair[0]
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = origin.request("POST", account, {"spec": {}})["status"]["token"]
    stranger = pair[1].request("POST", account, {"spec": {}})["status"]["token"]
    for name, kind in (("public", "Group"), ("named", "User")):
        rule = {"metadata": {"name": name}, "rules": [{"nonResourceURLs": [f"/{name}"], "verbs": ["get"]}]}
        origin.request("POST", f"/apis/{_RBAC}/v1/clusterroles", rule)
        subject = {"apiGroup": _RBAC, "kind": kind, "name": "system:unauthenticated" if kind == "Group" else "jane"}
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }
        origin.request("POST", f"/apis/{_RBAC}/v1/clusterrolebindings", binding)
    root.request("PUT", "/snapshots/nobody", {"cluster": origin.name})
    asked = LogicalCluster(root.server, tmp_path)

    def fork(path: str, authorization: str) -> tuple[int, str, bool]:
        """What is answered, and whether the cluster is awake then."""
        root.request("PUT", f"/clusters/{asked.name}", {"from": "nobody"})
        try:
            code, answer = anonymous(asked, path, {"Authorization": authorization} if authorization else {})
            message = answer["message"] if isinstance(answer, dict) and code >= 400 else ""
            awake = root.request("GET", f"/clusters/{asked.name}")["awake"]
            assert anonymous(origin, path, {"Authorization": authorization} if authorization else {})[0] == code
            return code, message, awake
        finally:
            root.request("DELETE", f"/clusters/{asked.name}")

    try:
        for bad in ("Bearer nobody", f"Bearer {stranger}"):
            assert fork(MAPS, bad) == (401, "Unauthorized", False)
        for path in (MAPS, "/named"):
            code, message, awake = fork(path, "")
            assert (code, awake) == (403, False) and "system:anonymous" in message
        assert fork("/version", "") == (200, "", True)
        assert fork("/public", "")[::2] == (404, True)
        code, message, awake = fork(MAPS, f"Bearer {token}")
        assert (code, awake) == (403, True) and "system:serviceaccount:default:default" in message
    finally:
        root.request("DELETE", "/snapshots/nobody")


def test_a_watch_sees_its_cluster_and_ends_with_it(root: Cluster, pair: list[LogicalCluster]) -> None:
    one, other = pair
    base = urllib.parse.urlsplit(one.url).path
    connection = connect(one.server, admin=True)
    revision = one.request("GET", MAPS)["metadata"]["resourceVersion"]
    connection.request("GET", f"{base}{MAPS}?watch=1&resourceVersion={revision}")
    stream = connection.getresponse()
    other.request("POST", MAPS, config_map("elsewhere"))
    one.request("POST", MAPS, config_map("here"))
    event = json.loads(stream.readline())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "here")
    rest: list[bytes] = []
    reader = threading.Thread(target=lambda: rest.append(stream.read()))
    reader.start()
    root.request("DELETE", f"/clusters/{one.name}")
    reader.join(120)
    assert rest == [b""]
    connection.close()
    assert one.request("GET", MAPS, expect=(404,))["code"] == 404


def test_kubectl_sees_a_normal_cluster(pair: list[LogicalCluster]) -> None:
    one, other = pair
    try:
        kubectl = one.kubectl()
    except RuntimeError as error:
        pytest.skip(str(error))
    kubectl("create", "configmap", "one", "--from-literal=a=1")
    assert kubectl("get", "configmap", "one")["data"] == {"a": "1"}
    kubectl("apply", "-f", str(CRD))
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com")
    assert kubectl("get", "widgets")["items"] == []
    assert "KIND:" in kubectl("explain", "widgets")
    with pytest.raises(AssertionError, match="NotFound|not found"):
        other.kubectl()("get", "configmap", "one")


def test_they_are_made_listed_and_removed(root: Cluster) -> None:
    made = root.request("PUT", "/clusters/by-hand")
    assert made["path"] == "/clusters/by-hand"
    assert root.request("PUT", "/clusters/by-hand") == root.request("GET", "/clusters/by-hand") == made
    assert made in root.request("GET", "/clusters")["clusters"]
    named = root.request("POST", "/clusters")["name"]
    with pytest.raises(RequestError, match="409 .*already exists"):
        root.request("POST", "/clusters", {"name": named})
    with pytest.raises(RequestError, match="400 .*no name of a logical cluster"):
        root.request("PUT", "/clusters/No_Name")
    for name in ("by-hand", named):
        root.request("DELETE", f"/clusters/{name}")
        with pytest.raises(RequestError, match="404 there is no logical cluster"):
            root.request("DELETE", f"/clusters/{name}")
    again = root.request("PUT", "/clusters/by-hand")
    assert again["name"] == "by-hand"
    root.request("DELETE", "/clusters/by-hand")


def test_masters_of_a_cluster_are_no_masters_of_the_process(root: Cluster, pair: list[LogicalCluster]) -> None:
    """Who may impersonate in a cluster calls himself what he likes there."""
    one, other = pair
    rule = {"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    one.request("POST", f"/apis/{_RBAC}/v1/clusterroles", rule)
    binding = {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    one.request("POST", f"/apis/{_RBAC}/v1/clusterrolebindings", binding)
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = one.request("POST", account, {"spec": {}})["status"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Impersonate-User": "x", "Impersonate-Group": "system:masters"}
    assert one.wait(lambda: anonymous(one, MAPS, headers)[0] == 200)
    root.request("PUT", "/snapshots/others", {"cluster": other.name})
    try:
        for path in ("/snapshots/others?content=1", "/snapshots", "/clusters", "/debug/flags/v", "/flagz"):
            assert anonymous(one, path, headers)[0] == 404, path
        for path in ("/version", "/livez?verbose", "/.well-known/openid-configuration"):
            assert one.request("GET", path), path
    finally:
        root.request("DELETE", "/snapshots/others")


@pytest.mark.parametrize("path", ["/clusters", "/clusters/x"])
def test_only_masters_make_them(root: Cluster, path: str) -> None:
    assert anonymous(root, path, {})[0] == 403
    rule = {"metadata": {"name": "paths"}, "rules": [{"nonResourceURLs": ["/clusters*"], "verbs": ["*"]}]}
    root.request("POST", f"/apis/{_RBAC}/v1/clusterroles", rule)
    binding = {
        "metadata": {"name": "paths"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "paths"},
        "subjects": [{"kind": "User", "apiGroup": _RBAC, "name": "jane"}],
    }
    root.request("POST", f"/apis/{_RBAC}/v1/clusterrolebindings", binding)
    try:
        jane = {"Impersonate-User": "jane"}
        refused = root.request("GET", path, headers=jane, expect=(403,))
        assert refused["message"] == "logical clusters are for members of system:masters"
    finally:
        root.request("DELETE", f"/apis/{_RBAC}/v1/clusterrolebindings/paths")
        root.request("DELETE", f"/apis/{_RBAC}/v1/clusterroles/paths")
