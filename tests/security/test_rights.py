"""Rights that somebody does not have and tries to get (classes 3, 13, 15, 20, 21, 22, impersonation, front proxies, RBAC)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import JSON, JSON_PATCH, MERGE, Attacker
from tests.waiting import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def grant(admin: Attacker, user: str, namespace: str, name: str, *rules: Any) -> None:
    base = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    kind = "Role" if namespace else "ClusterRole"
    plural = kind.lower() + "s"
    admin.create(f"{base}/{plural}", {"metadata": {"name": name}, "rules": list(rules)})
    body = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user}],
    }
    admin.create(f"{base}/{plural.removesuffix('s')}bindings", body)


def rule(group: str, resource: str, *verbs: str) -> Any:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def test_a_cluster_scoped_resource_is_not_in_a_namespace(admin: Attacker, alice: Attacker, namespace: str) -> None:
    """CVE-2019-11247: a Role must not give access to what is cluster-scoped."""
    group = f"{namespace}.example.com"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "globals", "singular": "global", "kind": "Global"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
    admin.create(CRDS, {"metadata": {"name": f"globals.{group}"}, "spec": spec})
    path = f"/apis/{group}/v1/globals"
    until(lambda: admin.ask("GET", path).status == 200)
    admin.create(path, {"apiVersion": f"{group}/v1", "kind": "Global", "metadata": {"name": "g"}})
    grant(admin, "alice", namespace, "all", rule("*", "*", "*"))
    inside = f"/apis/{group}/v1/namespaces/{namespace}/globals"
    for method, where in (("GET", f"{inside}/g"), ("GET", inside), ("DELETE", f"{inside}/g"), ("PATCH", f"{inside}/g")):
        answer = alice.ask(method, where, {} if method == "PATCH" else None, MERGE)
        assert answer.status == 404, (method, where, answer)
    assert alice.ask("GET", f"{path}/g").status == 403
    assert admin.ask("GET", f"{path}/g").status == 200
    nodes = alice.ask("GET", f"/api/v1/namespaces/{namespace}/nodes")
    assert nodes.status == 404
    admin.ask("DELETE", f"{CRDS}/globals.{group}")


@pytest.mark.parametrize(
    "tail",
    [
        "..", "../kube-system", "..%2fkube-system", "%2e%2e", "%2e%2e%2fsecrets", "a/../b", "a%2Fb",
        "a%00", "%2F", ".", "a%0ab", "%252e%252e",
    ],
)  # fmt: skip
def test_names_do_not_lead_to_other_resources(admin: Attacker, alice: Attacker, namespace: str, tail: str) -> None:
    """CVE-2022-3162: neither as a name nor as a namespace, and no key is the beginning of another resource's."""
    admin.create(
        f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "hidden-b"}}
    )
    grant(admin, "alice", namespace, "maps", rule("", "configmaps", "*"))
    for path in (
        f"/api/v1/namespaces/{namespace}/configmaps/{tail}",
        f"/api/v1/namespaces/{namespace}/configmaps/{tail}/{namespace}/s",
        f"/api/v1/namespaces/{tail}/configmaps",
        f"/api/v1/namespaces/{namespace}/configmaps/..%2f..%2fsecrets%2f{namespace}%2fs",
    ):
        for client in (alice, admin):
            for method in ("GET", "DELETE"):
                answer = client.ask(method, path)
                refused = answer.status == 500 and b"invalid key: " in answer.body  # as upstream's storage does
                assert refused or answer.status in (200, 301, 400, 403, 404, 405), (path, answer)
                assert b"hidden-b" not in answer.body and b"aGlkZGVuLWI=" not in answer.body, (path, answer)
                assert b'"kind":"Secret' not in answer.body
    assert admin.ask("GET", f"/api/v1/namespaces/{namespace}/secrets/s").status == 200


def test_a_group_whose_name_begins_as_another(admin: Attacker, namespace: str) -> None:
    """Two resources of one group whose keys share a beginning are two resources."""
    group = f"{namespace}.example.com"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    for plural in ("thing", "things"):
        names = {"plural": plural, "singular": f"{plural}one", "kind": plural.title()}
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
        admin.create(CRDS, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})
    base = f"/apis/{group}/v1/namespaces/{namespace}"
    until(lambda: admin.ask("GET", f"{base}/things").status == 200)
    admin.create(f"{base}/things", {"apiVersion": f"{group}/v1", "kind": "Things", "metadata": {"name": "t"}})
    assert admin.ask("GET", f"{base}/thing").tree["items"] == []
    assert len(admin.ask("GET", f"{base}/things").tree["items"]) == 1
    assert admin.ask("DELETE", f"{base}/thing").status == 200
    assert admin.ask("GET", f"{base}/things/t").status == 200
    for plural in ("thing", "things"):
        admin.ask("DELETE", f"{CRDS}/{plural}.{group}")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_the_right_to_watch_is_for_watches(admin: Attacker, alice: Attacker, namespace: str, method: str) -> None:
    """A path with /watch is authorized as a watch whatever its method is, so nothing else is served there."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    admin.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    admin.create(
        f"/apis/apps/v1/namespaces/{namespace}/replicasets",
        {"metadata": {"name": "r"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}}},
    )  # fmt: skip
    grant(admin, "alice", "", namespace, rule("*", "*", "watch"))
    within = f"namespaces/{namespace}"
    body = {"status": {"phase": "Failed"}, "spec": {"replicas": 3}}
    for path in (
        *(f"/api/v1/watch/{within}/pods/p/{name}" for name in ("status", "log", "exec", "attach", "proxy", "proxy/x")),
        *(f"/api/v1/watch/{within}/pods/p/{name}" for name in ("binding", "eviction", "ephemeralcontainers", "resize")),
        f"/api/v1/watch/{within}/serviceaccounts/default/token",
        f"/apis/apps/v1/watch/{within}/replicasets/r/scale",
        f"/api/v1/watch/{within}/status",
        f"/api/v1/watch/{within}/finalize",
        "/apis/authentication.k8s.io/v1/watch/tokenreviews",
        "/apis/authorization.k8s.io/v1/watch/subjectaccessreviews",
        "/api/v1/watch/componentstatuses",
        "/api/v1/watch/nodes/n/proxy/x",
    ):
        answer = alice.ask(method, path, None if method == "GET" else body, MERGE if method == "PATCH" else JSON)
        assert answer.status == 404, (path, answer)
    for path in (f"/api/v1/watch/{within}/pods/p", f"/api/v1/watch/{within}/pods"):
        if method != "GET":
            assert alice.ask(method, path, body, MERGE if method == "PATCH" else JSON).status == 405
    pods = admin.ask("GET", f"/api/v1/namespaces/{namespace}/pods/p").tree
    assert pods["status"]["phase"] == "Pending"
    assert admin.ask("GET", f"/apis/apps/v1/{within}/replicasets/r").tree["spec"]["replicas"] == 0
    admin.ask("DELETE", f"{RBAC}/clusterrolebindings/{namespace}")
    admin.ask("DELETE", f"{RBAC}/clusterroles/{namespace}")


def test_the_core_group_has_one_path(admin: Attacker) -> None:
    """A proxy before the server that knows a resource's path must know all of them."""
    for path in ("/apis//v1/secrets", "//api/v1/secrets", "/api//v1/secrets", "/apis/v1/secrets", "/API/v1/secrets"):
        assert admin.ask("GET", path).status == 404, path


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
def test_reading_is_not_enough_to_run_something(
    admin: Attacker, alice: Attacker, namespace: str, subresource: str
) -> None:
    """kubernetes#134577: a WebSocket opens with GET."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    admin.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "p"}, "spec": spec})
    grant(admin, "alice", namespace, "read", rule("", f"pods/{subresource}", "get"))
    path = f"/api/v1/namespaces/{namespace}/pods/p/{subresource}?command=sh&stdin=true&container=c"
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    answer = alice.ask("GET", path, headers=upgrade)
    assert answer.status == 403, answer
    assert f'cannot create resource "pods/{subresource}"' in answer.message
    grant(admin, "alice", namespace, "run", rule("", f"pods/{subresource}", "create"))
    assert alice.ask("GET", path, headers=upgrade).status == 400  # no host, but the right to it


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-User": "admin"},
        {"Impersonate-User": "system:serviceaccount:kube-system:default"},
        {"Impersonate-User": "alice", "Impersonate-Group": "system:masters"},
        {"Impersonate-User": "alice", "Impersonate-Uid": "0"},
        {"Impersonate-User": "alice", "Impersonate-Extra-Scopes": "all"},
        {"impersonate-user": "admin", "Impersonate-group": "system:masters"},
    ],
)
def test_nobody_is_somebody_else(alice: Attacker, headers: dict[str, str]) -> None:
    answer = alice.ask("GET", "/api/v1/namespaces/kube-system/secrets", headers=headers)
    assert answer.status == 403
    assert "cannot impersonate" in answer.message


def test_impersonation_needs_a_user(alice: Attacker) -> None:
    for headers in ({"Impersonate-Group": "system:masters"}, {"Impersonate-Extra-A": "b"}, {"Impersonate-Uid": "1"}):
        answer = alice.ask("GET", "/api/v1/nodes", headers=headers)
        assert answer.status in (400, 403, 500), answer
        assert answer.status != 200


def test_headers_of_an_authenticating_proxy_need_its_certificate(server: ServerProcess, alice: Attacker) -> None:
    forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters", "X-Remote-Extra-A": "b"}
    for client in (alice, Attacker(server)):
        answer = client.ask("GET", "/api/v1/namespaces/kube-system/secrets", headers=forged)
        assert answer.status in (401, 403), answer


def test_roles_are_not_widened_by_who_may_write_them(admin: Attacker, alice: Attacker, namespace: str) -> None:
    """escalate and bind: who may write roles and bindings gives no more than what is already there."""
    grant(admin, "alice", namespace, "writer", rule(GROUP, "roles", "*"), rule(GROUP, "rolebindings", "*"))
    # "*" as a verb includes escalate and bind: take a role without them
    verbs = ["get", "list", "create", "update", "patch", "delete"]
    role = {
        "metadata": {"name": "writer"},
        "rules": [rule(GROUP, "roles", *verbs), rule(GROUP, "rolebindings", *verbs)],
    }
    assert admin.ask("PUT", f"{RBAC}/namespaces/{namespace}/roles/writer", role).status == 200
    base = f"{RBAC}/namespaces/{namespace}"
    wide = {"metadata": {"name": "wide"}, "rules": [rule("", "secrets", "*")]}
    assert alice.ask("POST", f"{base}/roles", wide).status == 403
    wider = {"rules": [rule("*", "*", "*")]}
    assert alice.ask("PATCH", f"{base}/roles/writer", wider, MERGE).status == 403
    added = [{"op": "add", "path": "/rules/-", "value": rule("", "secrets", "get")}]
    assert alice.ask("PATCH", f"{base}/roles/writer", added, JSON_PATCH).status == 403
    for kind, name in (("ClusterRole", "cluster-admin"), ("ClusterRole", "edit"), ("ClusterRole", "nosuch")):
        binding = {
            "metadata": {"name": f"to-{name}"},
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
            "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "alice"}],
        }
        assert alice.ask("POST", f"{base}/rolebindings", binding).status in (403, 404)
    applied = {"apiVersion": f"{GROUP}/v1", "kind": "Role", **wide}
    answer = alice.ask("PATCH", f"{base}/roles/wide?fieldManager=a", applied, "application/apply-patch+yaml")
    assert answer.status == 403
    assert admin.ask("GET", f"{base}/roles/wide").status == 404


def test_roles_of_namespaces_do_not_write_endpoints(admin: Attacker) -> None:
    """CVE-2021-25740: whoever writes endpoints leads others' traffic where he likes."""
    for name in ("edit", "admin", "system:aggregate-to-edit"):
        for each in admin.ask("GET", f"{RBAC}/clusterroles/{name}").tree.get("rules") or ():
            if {"endpoints", "endpointslices", "*"} & set(each.get("resources") or ()):
                assert not {"create", "update", "patch", "*"} & set(each["verbs"]), (name, each)


def test_what_is_said_of_rights_is_what_they_are(admin: Attacker, alice: Attacker, namespace: str) -> None:
    grant(admin, "alice", namespace, "maps", rule("", "configmaps", "get", "list"))
    for verb, resource, where, method in (
        ("list", "configmaps", namespace, "GET"), ("list", "configmaps", "default", "GET"), ("list", "secrets", namespace, "GET"),
        ("deletecollection", "configmaps", namespace, "DELETE"),
    ):  # fmt: skip
        spec = {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": where}}
        review = alice.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": spec})
        allowed = review.tree["status"].get("allowed", False)
        answer = alice.ask(method, f"/api/v1/namespaces/{where}/{resource}")
        assert allowed is (answer.status == 200), (verb, resource, where)


@pytest.fixture(scope="module")
def guarded() -> Iterator[ServerProcess]:
    """With the admission of nodes, which the other server has as well, and mirror pods."""
    flags = "--enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs"
    server = ForkedServer(flags, "--authorization-mode=Node,RBAC").start()
    yield server
    server.stop()


@pytest.fixture
def root(guarded: ServerProcess) -> Attacker:
    return Attacker(guarded, "admintoken")


AS_NODE = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}


def as_node(root: Attacker, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
    return root.ask(method, path, body, kind, AS_NODE)


def test_a_node_does_not_choose_its_owners(root: Attacker) -> None:
    """CVE-2025-5187: a node that is owned by something that goes away is deleted and may register anew, as it likes."""
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]
    owned = {"metadata": {"name": "n1", "ownerReferences": owners}}
    root.ask("DELETE", "/api/v1/nodes/n1")
    assert as_node(root, "POST", "/api/v1/nodes", owned).status in (201, 403)
    root.ask("DELETE", "/api/v1/nodes/n1")
    assert as_node(root, "POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}).status == 201
    change = {"metadata": {"ownerReferences": owners}}
    assert as_node(root, "PATCH", "/api/v1/nodes/n1", change, MERGE).status == 403
    stored = as_node(root, "GET", "/api/v1/nodes/n1").tree
    stored["metadata"]["ownerReferences"] = owners
    assert as_node(root, "PUT", "/api/v1/nodes/n1", stored).status == 403
    assert "ownerReferences" not in as_node(root, "GET", "/api/v1/nodes/n1").tree["metadata"]


def test_the_old_object_is_the_stored_one(root: Attacker) -> None:
    """CVE-2021-25735: what a node may not change is judged against what is stored, whatever the request says."""
    root.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    assert root.ask("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [taint]}}, MERGE).status == 200
    assert as_node(root, "PATCH", "/api/v1/nodes/n1", {"spec": {"taints": None}}, MERGE).status == 403
    stored = as_node(root, "GET", "/api/v1/nodes/n1").tree
    stored["spec"]["taints"] = []
    assert as_node(root, "PUT", "/api/v1/nodes/n1", stored).status == 403
    label = {"metadata": {"labels": {"node-restriction.kubernetes.io/secure": "yes"}}}
    assert as_node(root, "PATCH", "/api/v1/nodes/n1", label, MERGE).status == 403
    assert as_node(root, "PATCH", "/api/v1/nodes/n1/status", {"status": {"phase": "Running"}}, MERGE).status == 200
    taints = as_node(root, "GET", "/api/v1/nodes/n1").tree["spec"]["taints"]
    assert taint in taints


def test_a_mirror_pod_claims_nothing(root: Attacker) -> None:
    """CVE-2025-4563: a node's own pod must not reach claims, neither when it is made nor later."""
    node = root.ask("GET", "/api/v1/nodes/n1")
    node = node.tree if node.status == 200 else root.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"], "controller": True}
    metadata = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    spec: Any = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    for claim in ({"name": "c", "resourceClaimName": "c"}, {"name": "c", "resourceClaimTemplateName": "t"}):
        body = {"metadata": metadata, "spec": {**spec, "resourceClaims": [claim]}}
        assert as_node(root, "POST", "/api/v1/namespaces/default/pods", body).status == 403
    for part in (
        {"secret": {"secretName": "s"}},
        {"configMap": {"name": "c"}},
        {"persistentVolumeClaim": {"claimName": "c"}},
    ):
        body = {"metadata": metadata, "spec": {**spec, "volumes": [{"name": "v", **part}]}}
        assert as_node(root, "POST", "/api/v1/namespaces/default/pods", body).status == 403
    assert as_node(root, "POST", "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec}).status == 201
    claims = {"status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}}
    answer = as_node(root, "PATCH", "/api/v1/namespaces/default/pods/m/status", claims, MERGE)
    assert answer.status in (403, 422)


def test_a_node_reads_its_own_pods_only(root: Attacker) -> None:
    """The selector that is authorized is the one that is served."""
    for query, status in (
        ("fieldSelector=spec.nodeName%3Dn1", 200),
        ("fieldSelector=spec.nodeName%3Dn2", 403),
        ("", 403),
        ("fieldSelector=spec.nodeName!%3Dn1", 403),
        ("fieldSelector=spec.nodeName%3Dn2&fieldSelector=spec.nodeName%3Dn1", 403),
        ("fieldSelector=&fieldSelector=spec.nodeName%3Dn1", 403),
    ):
        for verb in ("", "&watch=1&timeoutSeconds=1"):
            assert as_node(root, "GET", f"/api/v1/pods?{query}{verb}").status == status, (query, verb)


def test_external_addresses_are_refused_where_that_is_asked_for(root: Attacker) -> None:
    """CVE-2020-8554."""
    path = "/api/v1/namespaces/default/services"
    spec = {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}
    assert root.ask("POST", path, {"metadata": {"name": "e"}, "spec": spec}).status == 403
    root.create(path, {"metadata": {"name": "e"}, "spec": {"ports": [{"port": 80}]}})
    assert root.ask("PATCH", f"{path}/e", {"spec": {"externalIPs": ["1.2.3.4"]}}, MERGE).status == 403
    added = [{"op": "add", "path": "/spec/externalIPs", "value": ["1.2.3.4"]}]
    assert root.ask("PATCH", f"{path}/e", added, JSON_PATCH).status == 403


def test_forged_versions_and_owners_of_fields(admin: Attacker, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    forged = {
        "manager": "kubelet",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }
    metadata = {
        "name": "m", "uid": "mine", "creationTimestamp": "1970-01-01T00:00:00Z", "selfLink": "/x",
        "deletionTimestamp": "1970-01-01T00:00:00Z", "managedFields": [forged],
    }  # fmt: skip
    made = admin.ask("POST", path, {"metadata": metadata, "data": {"a": "b"}})
    assert made.status == 201
    found = made.tree["metadata"]
    assert found["uid"] != "mine" and not found["creationTimestamp"].startswith("1970")
    assert "deletionTimestamp" not in found and "selfLink" not in found
    stale = {"metadata": {"name": "m", "resourceVersion": "1"}, "data": {}}
    assert admin.ask("PUT", f"{path}/m", stale).status == 409
    ahead = {"metadata": {"name": "m", "resourceVersion": str((1 << 63) - 1)}, "data": {}}
    assert admin.ask("PUT", f"{path}/m", ahead).status == 409
    other = {"metadata": {"uid": "other"}}
    assert admin.ask("PATCH", f"{path}/m", other, MERGE).status in (409, 422)
