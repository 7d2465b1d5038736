"""Who administers a logical cluster has no rights outside of it (docs/adr/0029)."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tests.integration.server_process import ForkedServer
from tests.security.attacker import Answer, Attacker, memory
from tests.security.backends import Backend
from tests.security.test_rights import GROUP, RBAC
from tests.security.test_webhooks import HOOKS, answering
from tests.waiting import until

MASTER = {"Impersonate-User": "somebody", "Impersonate-Group": "system:masters"}
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture(scope="module")
def clusters() -> Iterator[ForkedServer]:
    server = ForkedServer("--testbed", "--enable-logical-clusters", "--enable-fault-injection").start()
    try:
        root = Attacker(server, "admintoken")
        for name in ("own", "other"):
            assert root.ask("PUT", f"/clusters/{name}", {"seed": "the same"}).status == 201
        subject = {"kind": "User", "apiGroup": GROUP, "name": "alice"}
        role = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": "alice"}, "roleRef": role, "subjects": [subject]}
        root.create(f"/clusters/own{RBAC}/clusterrolebindings", binding)
        yield server
    finally:
        server.stop()


@pytest.fixture
def root(clusters: ForkedServer) -> Attacker:
    return Attacker(clusters, "admintoken")


@pytest.fixture
def owner(clusters: ForkedServer) -> Attacker:
    """Administers the cluster ``own``, and calls herself a master there."""
    return Attacker(clusters, "alicetoken")


@pytest.mark.parametrize("other", ["", "/clusters/other"])
def test_a_token_of_a_cluster_is_good_there_alone(
    clusters: ForkedServer, root: Attacker, owner: Attacker, other: str
) -> None:
    """Loaded objects keep their uids, so that a ServiceAccount can be loaded as the twin of one elsewhere."""
    account = root.ask("GET", f"{other}{ACCOUNTS}/default").tree
    twin = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
        "name": "default", "namespace": "default", "uid": account["metadata"]["uid"]}}  # fmt: skip
    loaded = owner.ask("POST", "/clusters/own/kapi/objects", {"items": [twin]}, headers=MASTER)
    assert loaded.tree == {"taken": 1, "refused": []}
    token = owner.create(f"/clusters/own{ACCOUNTS}/default/token", {"spec": {}})["status"]["token"]
    robot = Attacker(clusters, token)
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    assert robot.ask("POST", f"/clusters/own{review}", {}).status == 201
    assert robot.ask("POST", f"{other}{review}", {}).status == 401
    reviewed = root.create(f"{other}/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert "authenticated" not in reviewed["status"]
    back = root.create(f"{other}{ACCOUNTS}/default/token", {"spec": {}})["status"]["token"]
    assert Attacker(clusters, back).ask("POST", f"{other}{review}", {}).status == 201
    assert Attacker(clusters, back).ask("POST", f"/clusters/own{review}", {}).status == 401


def test_a_fork_takes_the_tokens_of_its_origin(clusters: ForkedServer, root: Attacker) -> None:
    """Also when its snapshot was a file meanwhile."""
    token = root.create(f"/clusters/other{ACCOUNTS}/default/token", {"spec": {}})["status"]["token"]
    assert root.ask("PUT", "/snapshots/kept", {"cluster": "other"}).status == 201
    content = root.ask("GET", "/snapshots/kept?content=1").body
    assert root.ask("PUT", "/snapshots/file", content, "application/x-kapi-snapshot").status == 201
    for number, snapshot in enumerate(("kept", "file")):
        assert root.ask("PUT", f"/clusters/fork-{number}", {"from": snapshot}).status == 201
        review = f"/clusters/fork-{number}/apis/authentication.k8s.io/v1/selfsubjectreviews"
        assert Attacker(clusters, token).ask("POST", review, {}).status == 201
    assert Attacker(clusters, token).ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/clusters", "/clusters/own", "/clusters/other", "/clusters/other/api/v1/secrets", "/snapshots", "/kapi/faults",
        "/kapi/changes?from=0", "/debug/pprof/", "/flagz", "/api/v1/secrets", "/clusters/own/clusters/other/api/v1/secrets",
        "/clusters/own/../other/api/v1/secrets", "/clusters/own/..%2fother/api/v1/secrets", "/clusters/own%2f..%2fother/api",
        "//clusters/own/api/v1/secrets", "/clusters//own/api/v1/secrets", "/clusters/own/clusters", "/clusters/own/snapshots",
        "/clusters/own/flagz", "/clusters/own/debug/pprof/", "/clusters/own/metrics/../flagz", "/clusters/own//api/v1/secrets",
    ],
)  # fmt: skip
def test_an_owner_sees_nothing_of_others(owner: Attacker, path: str) -> None:
    for headers in ({}, MASTER):
        answer = owner.ask("GET", path, headers=headers)
        assert answer.status in (403, 404), (path, headers, answer)


def test_faults_of_a_cluster_are_of_that_cluster(root: Attacker, owner: Attacker) -> None:
    rule = {"match": {"resource": "configmaps"}, "status": 503}
    owner.create("/clusters/own/kapi/faults", rule, headers=MASTER)
    maps = "/api/v1/namespaces/default/configmaps"
    assert owner.ask("GET", f"/clusters/own{maps}").status == 503
    assert root.ask("GET", maps).status == 200 and root.ask("GET", f"/clusters/other{maps}").status == 200


def test_an_owner_is_never_exempt_nor_are_her_robots(clusters: ForkedServer, root: Attacker, owner: Attacker) -> None:
    """From priority and fairness, which all clusters share; the process's own masters are, in every cluster."""
    levels = root.ask("GET", "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations").tree["items"]
    exempt = next(level["metadata"]["uid"] for level in levels if level["metadata"]["name"] == "exempt")
    account = "/api/v1/namespaces/kube-system/serviceaccounts/default/token"
    token = owner.create(f"/clusters/own{account}", {"spec": {}})["status"]["token"]
    robot, path = Attacker(clusters, token), "/clusters/own/api/v1/namespaces"

    def level(answer: Answer) -> str:
        return answer.headers["X-Kubernetes-Pf-Prioritylevel-Uid"]

    assert level(root.ask("GET", path)) == exempt
    ordinary = level(owner.ask("GET", path))
    assert ordinary != exempt
    assert level(owner.ask("GET", path, headers=MASTER)) == level(robot.ask("GET", path)) == ordinary
    manager = {"Impersonate-User": "system:kube-controller-manager"}
    assert level(owner.ask("GET", path, headers=manager)) == ordinary
    assert owner.ask("GET", path, headers=MASTER).status == 200


def test_metrics_are_of_the_process(root: Attacker, owner: Attacker) -> None:
    """They name resources and webhooks of all clusters."""
    assert root.ask("GET", "/clusters/own/metrics").status == 200
    for headers in ({}, MASTER, {"Impersonate-User": "x", "Impersonate-Group": "system:monitoring"}):
        for path in ("/metrics", "/metrics/slis"):
            assert owner.ask("GET", f"/clusters/own{path}", headers=headers).status in (403, 404)


def test_a_cluster_issues_tokens_in_its_own_name(root: Attacker, owner: Attacker) -> None:
    """Else who trusts the issuer of the process takes a namesake for a ServiceAccount of the process."""

    def issuer(token: str) -> str:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        assert claims["sub"] == "system:serviceaccount:default:default"
        return str(claims["iss"])

    found = set()
    for attacker, prefix in ((root, ""), (owner, "/clusters/own"), (root, "/clusters/other")):
        token = attacker.create(f"{prefix}{ACCOUNTS}/default/token", {"spec": {}})["status"]["token"]
        document = attacker.ask("GET", f"{prefix}/.well-known/openid-configuration").tree
        assert document["issuer"] == issuer(token)
        where = urlsplit(document["jwks_uri"]).path
        assert where == f"{prefix}/openid/v1/jwks"
        assert attacker.ask("GET", where).tree["keys"]
        found.add(issuer(token))
    assert len(found) == 3


def test_a_write_that_is_under_way_when_its_cluster_goes_is_not_acknowledged(root: Attacker) -> None:
    """While a webhook is asked about it; nor is it in the next cluster of this name."""
    asked, go = threading.Event(), threading.Event()
    go.set()

    def speak(head: bytes, body: bytes) -> bytes:
        asked.set()
        go.wait(60)
        return answering({})(head, body)

    with Backend(speak) as backend, ThreadPoolExecutor(1) as pool:
        assert root.ask("PUT", "/clusters/going", {}).status == 201
        maps = "/clusters/going/api/v1/namespaces/default/configmaps"
        webhook = {
            "name": "slow.example.com",
            "clientConfig": {
                "url": f"https://localhost:{backend.port}/hook",
                "caBundle": base64.b64encode(backend.certificate).decode(),
            },
            "rules": [
                {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
        }
        root.create(f"/clusters/going{HOOKS}/validatingwebhookconfigurations", {
            "metadata": {"name": "slow"}, "webhooks": [webhook]})  # fmt: skip

        def heeded() -> bool:
            assert root.ask("POST", f"{maps}?dryRun=All", {"metadata": {"name": "probe"}}).status == 201
            return asked.is_set()

        until(heeded)
        asked.clear()
        go.clear()
        writing = pool.submit(root.ask, "POST", maps, {"metadata": {"name": "late"}})
        assert asked.wait(60)
        assert root.ask("DELETE", "/clusters/going").status == 200
        assert root.ask("PUT", "/clusters/going", {}).status == 201
        go.set()
        answer = writing.result(60)
        assert (answer.status, answer.tree["kind"]) == (503, "Status"), answer
        assert root.ask("GET", f"{maps}/late").status == 404


def test_clusters_that_were_written_and_removed_leave_no_memory(clusters: ForkedServer, root: Attacker) -> None:
    """0.55 MB each, until the process has doubled: what serves a cluster refers to itself in many circles."""
    assert clusters.process is not None
    after = []
    for turn in range(3):
        paths = [f"/clusters/turn-{turn}-{number}" for number in range(80)]
        for path in paths:
            assert root.ask("PUT", path, {}).status == 201
            root.create(f"{path}/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}})
        for path in paths:
            assert root.ask("DELETE", path).status == 200
        after.append(memory(clusters.process.pid))
    print(*(size >> 20 for size in after), "MB after each turn")
    assert after[-1] < 1.3 * after[0]
