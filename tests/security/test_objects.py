"""Objects that lead, run or read where they must not (classes 13, 17), and what goes last when a namespace goes (class 19)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import MERGE, STRATEGIC, Attacker
from tests.waiting import until


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "fe80::1", "ff02::1", "::"]
)
def test_endpoints_do_not_lead_to_this_machine(admin: Attacker, namespace: str, address: str) -> None:
    """CVE-2021-25737."""
    core = f"/api/v1/namespaces/{namespace}/endpoints"
    subsets = [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]
    assert admin.ask("POST", core, {"metadata": {"name": "e"}, "subsets": subsets}).status == 422
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    kind = "IPv6" if ":" in address else "IPv4"
    body = {"metadata": {"name": "e"}, "addressType": kind, "endpoints": [{"addresses": [address]}]}
    assert admin.ask("POST", slices, body).status == 422
    fine = {**body, "endpoints": [{"addresses": ["fd00::1" if ":" in address else "10.1.1.1"]}]}
    admin.create(slices, fine)
    change = {"endpoints": [{"addresses": [address]}]}
    assert admin.ask("PATCH", f"{slices}/e", change, MERGE).status == 422


CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


@pytest.fixture(scope="module")
def strict() -> Iterator[ServerProcess]:
    server = ForkedServer().start()
    yield server
    server.stop()


def pod(part: str, container: Any) -> Any:
    """A pod with a container of a kind, beside a harmless one."""
    spec: Any = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "strict"}
    if part == "containers":
        spec["containers"].append(container)
    else:
        spec[part] = [container]
    return {"metadata": {"name": "p"}, "spec": spec}


REFERENCES = (
    {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "a"}}}]},
    {"envFrom": [{"secretRef": {"name": "other"}}]},
)


@pytest.mark.parametrize("part", CONTAINERS)
@pytest.mark.parametrize("reference", REFERENCES, ids=["env", "envFrom"])
def test_secrets_that_an_account_may_not_mount(strict: ServerProcess, part: str, reference: Any) -> None:
    """CVE-2023-2728, CVE-2024-3177: in all kinds of containers, and by all ways into the environment."""
    admin = Attacker(strict, "admintoken")
    base = "/api/v1/namespaces/default"
    account = {"metadata": {"name": "strict", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}
    admin.ask("POST", f"{base}/serviceaccounts", {**account, "secrets": [{"name": "mine"}]})
    container = {"name": "x", "image": "i", **reference}
    if part == "ephemeralContainers":
        body = pod("containers", {"name": "y", "image": "i"})
        body["metadata"]["name"] = f"e-{'env' if 'env' in reference else 'from'}".lower()
        admin.create(f"{base}/pods", body)
        path = f"{base}/pods/{body['metadata']['name']}/ephemeralcontainers"
        answer = admin.ask("PATCH", path, {"spec": {"ephemeralContainers": [container]}}, STRATEGIC)
    else:
        answer = admin.ask("POST", f"{base}/pods", pod(part, container))
    assert answer.status in (403, 500), answer  # an ephemeral container's is no Forbidden upstream either
    assert "does not reference that secret" in answer.message
    mounted = pod("containers", {"name": "y", "image": "i"})
    mounted["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "other"}}]
    assert admin.ask("POST", f"{base}/pods", mounted).status == 403


def test_pods_go_before_what_keeps_them_in_check(admin: Attacker, namespace: str) -> None:
    """CVE-2024-7598: while a pod of the namespace runs, the policies that restrict it stay."""
    base = f"/api/v1/namespaces/{namespace}"
    policies = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
    admin.create(policies, {"metadata": {"name": "n"}, "spec": {"podSelector": {}}})
    metadata = {"name": "p", "finalizers": ["example.com/stays"]}
    admin.create(f"{base}/pods", {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    admin.create(f"{base}/configmaps", {"metadata": {"name": "m"}})
    assert admin.ask("DELETE", base).status == 200
    until(lambda: admin.ask("GET", f"{base}/pods/p").tree["metadata"].get("deletionTimestamp"))

    def told() -> bool:
        conditions = admin.ask("GET", base).tree["status"].get("conditions") or ()
        return any(each["type"] == "NamespaceContentRemaining" and each["status"] == "True" for each in conditions)

    until(told)
    assert admin.ask("GET", f"{policies}/n").status == 200
    assert admin.ask("GET", f"{base}/configmaps/m").status == 200
    assert admin.ask("PATCH", f"{base}/pods/p", {"metadata": {"finalizers": None}}, MERGE).status == 200
    until(lambda: admin.ask("GET", base).status == 404)
