"""kubectl's questions about identity and permission, against a real server process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.server_process import Kubectl
from tests.waiting import until

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def who(text: str) -> Any:
    return json.loads(text)["status"]["userInfo"]


def test_whoami_and_as(kubectl: Kubectl) -> None:
    own = who(kubectl.run("auth", "whoami", "-o", "json"))
    assert "system:masters" in own["groups"]
    other = who(kubectl.run("auth", "whoami", "-o", "json", "--as=jane", "--as-group=dev", "--as-uid=u1"))
    assert other == {"username": "jane", "uid": "u1", "groups": ["dev", "system:authenticated"]}


def test_can_i(kubectl: Kubectl) -> None:
    assert kubectl.run("auth", "can-i", "delete", "nodes").strip() == "yes"
    assert kubectl.run("auth", "can-i", "get", "pods", "--as=jane", ok=(1,)).strip() == "no"
    kubectl.run("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log")
    kubectl.run("create", "rolebinding", "reader", "--role=reader", "--user=jane")
    assert kubectl.run("auth", "can-i", "get", "pods", "--subresource=log", "--as=jane").strip() == "yes"
    assert kubectl.run("auth", "can-i", "delete", "pods", "--as=jane", ok=(1,)).strip() == "no"
    listed = kubectl.run("auth", "can-i", "--list", "--as=jane")
    assert any(line.split()[:1] == ["pods"] and "[get list]" in line for line in listed.splitlines())
    kubectl.run("get", "pods", "--as=jane")
    kubectl.run("get", "secrets", "--as=jane", ok=(1,))
    assert 'User "jane" cannot list resource "secrets"' in kubectl.stderr


def test_tokens_of_service_accounts(kubectl: Kubectl) -> None:
    kubectl.run("create", "serviceaccount", "robot")
    token = kubectl.run("create", "token", "robot", "--duration=10m", "--audience=https://elsewhere.example").strip()
    assert token.count(".") == 2
    own = kubectl.run("create", "token", "robot").strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": own}}
    answer = json.loads(kubectl.run("create", f"--raw={REVIEWS}", "-f", "-", stdin=json.dumps(review)))
    assert answer["status"]["user"]["username"] == f"system:serviceaccount:{kubectl.namespace}:robot"
    review["spec"] = {"token": token}
    answer = json.loads(kubectl.run("create", f"--raw={REVIEWS}", "-f", "-", stdin=json.dumps(review)))
    assert "authenticated" not in answer["status"]
    kubectl.run("create", "token", "robot", "--duration=1m", ok=(1,))
    assert "may not specify a duration less than 10 minutes" in kubectl.stderr


def test_reconcile(kubectl: Kubectl, tmp_path: Path) -> None:
    name = f"reader-{kubectl.namespace}"
    role = kubectl.run("create", "clusterrole", name, "--verb=get", "--resource=pods", "--dry-run=client", "-o", "yaml")
    file = tmp_path / "role.yaml"
    file.write_text(role)
    assert "reconciled" in kubectl.run("auth", "reconcile", "-f", str(file))
    file.write_text(role.replace("- get", "- get\n  - list"))
    kubectl.run("auth", "reconcile", "-f", str(file))
    rules = json.loads(kubectl.run("get", "clusterrole", name, "-o", "json"))["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    kubectl.run("delete", "clusterrole", name)


def test_aggregated_roles_are_filled(kubectl: Kubectl) -> None:
    """By a controller, which may begin after the server is ready."""

    def filled(name: str) -> bool:
        rules = json.loads(kubectl.run("get", "clusterrole", name, "-o", "json"))["rules"] or ()
        return any("pods" in rule["resources"] for rule in rules)

    for name in ("view", "edit", "admin"):
        until(lambda name=name: filled(name))  # type: ignore[misc]
