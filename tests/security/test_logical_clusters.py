"""Who administers a logical cluster has no rights outside of it (docs/adr/0029)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.server_process import ForkedServer
from tests.security.attacker import Attacker
from tests.security.test_rights import GROUP, RBAC

MASTER = {"Impersonate-User": "somebody", "Impersonate-Group": "system:masters"}
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture(scope="module")
def clusters() -> Iterator[ForkedServer]:
    server = ForkedServer("--enable-logical-clusters", "--enable-fault-injection").start()
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
