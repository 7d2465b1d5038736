"""Attacks on who may do what, through the API and its filters."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.observability.metrics import Metrics
from kapi.servers.core.handlers import built_in_handlers
from tests.authorization.secured import SecuredAPI
from tests.filters.requests import request

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/x"
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def api() -> SecuredAPI:
    api = SecuredAPI()
    api.table.handlers.update(built_in_handlers(api.registry, api.clock, KubeletSettings()))
    for node in ("n1", "n2"):
        made = api.ask_as("admin", "POST", "/api/v1/nodes", {"metadata": {"name": node}})
        assert made.code == 201, made.written
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        made = api.ask_as(
            "admin", "POST", "/api/v1/namespaces/x/pods", {"metadata": {"name": f"on-{node}"}, "spec": spec}
        )
        assert made.code == 201, made.written
    return api


def grant(api: SecuredAPI, user: str, name: str, *rules: dict[str, Any]) -> None:
    assert api.ask_as("admin", "POST", f"{RBAC}/roles", {"metadata": {"name": name}, "rules": list(rules)}).code == 201
    ref = {"apiGroup": GROUP, "kind": "Role", "name": name}
    subjects = [{"kind": "User", "apiGroup": GROUP, "name": user}]
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
    assert api.ask_as("admin", "POST", f"{RBAC}/rolebindings", body).code == 201


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
def test_reading_is_not_enough_to_run_something(api: SecuredAPI, subresource: str) -> None:
    """kubernetes#134577: a WebSocket opens with GET, which RBAC calls "get"."""
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": [f"pods/{subresource}"]}
    grant(api, "alice", f"read-{subresource}", rule)
    uri = f"/api/v1/namespaces/x/pods/on-n1/{subresource}?command=sh&stdin=true&container=c"
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    refused = api.ask_as("alice", "GET", uri, **headers)
    assert refused.code == 403
    assert f'cannot create resource "pods/{subresource}"' in refused.json["message"]
    grant(api, "alice", f"run-{subresource}", {**rule, "verbs": ["create"]})
    assert api.ask_as("alice", "GET", uri, **headers).code != 403


def test_a_node_cannot_widen_what_it_selected(api: SecuredAPI) -> None:
    """What is authorized is the selector that is served, however often and in which form it is given."""
    node = {"Impersonate_User": "system:node:n1", "Impersonate_Group": "system:nodes"}
    own, other = "spec.nodeName%3Dn1", "spec.nodeName%3Dn2"

    def names(query: str) -> Any:
        answer = api.ask_as("admin", "GET", f"/api/v1/pods?{query}", **node)
        return [item["metadata"]["name"] for item in answer.json["items"]] if answer.code == 200 else answer.code

    assert names(f"fieldSelector={own}") == ["on-n1"]
    assert names(f"fieldSelector={own}&fieldSelector={other}") == ["on-n1"]
    assert names(f"fieldSelector={other}&fieldSelector={own}") == 403
    assert names(f"fieldSelector=&fieldSelector={own}") == 403
    assert names(f"FieldSelector={own}") == 403
    assert names("fieldSelector=spec.nodeName!%3Dn1") == 403
    assert names("fieldSelector=spec.nodeName%3D%3Dn1") == ["on-n1"]
    assert names(f"fieldSelector={own},{other}") == [], "both have to hold"


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate_User": "admin"},
        {"Impersonate_User": "alice", "Impersonate_Group": "system:masters"},
        {"Impersonate_User": "system:serviceaccount:kube-system:default"},
        {"Impersonate_User": "alice", "Impersonate_Uid": "1"},
        {"Impersonate_User": "alice", "Impersonate_Extra_scopes": "all"},
    ],
)
def test_nobody_becomes_somebody_by_headers_alone(api: SecuredAPI, headers: dict[str, str]) -> None:
    answer = api.ask_as("bob", "GET", "/api/v1/namespaces/x/secrets", **headers)
    assert answer.code == 403
    assert "cannot impersonate" in answer.json["message"] and 'User "bob"' in answer.json["message"]


def test_headers_of_a_front_proxy_without_its_certificate_are_nobodys_word(api: SecuredAPI) -> None:
    headers = {"X_Remote_User": "admin", "X_Remote_Group": "system:masters"}
    assert api.ask_as("", "GET", "/api/v1/namespaces/x/secrets", **headers).code == 403
    answer = api.ask_as("bob", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, **headers)
    assert answer.json["status"]["userInfo"]["username"] == "bob"


@pytest.mark.parametrize("name", ["..", "%2e%2e", "x%2Fsecrets", "x/../y/secrets", "%2e%2e/secrets"])
def test_a_path_is_authorized_as_it_is_served(api: SecuredAPI, name: str) -> None:
    """CVE-2022-3162: nothing of another resource or namespace comes with a crooked path."""
    for uri in (f"/api/v1/namespaces/x/configmaps/{name}", f"/api/v1/namespaces/{name}/configmaps"):
        assert api.ask_as("bob", "GET", uri).code in (400, 403, 404), uri
        assert api.ask_as("admin", "GET", uri).code in (400, 404) or not api.ask_as("admin", "GET", uri).json.get(
            "items"
        )


def test_the_series_of_metrics_do_not_grow_with_what_clients_make_up() -> None:
    """CVE-2020-8552: labels come from the catalogue."""
    metrics = Metrics()
    count = metrics.requests.filter(lambda group, version, resource, subresource: (group, resource) == ("", "pods"))

    def series(start: int) -> int:
        for number in range(start, start + 2_000):
            uris = f"/made/up/{number}", f"/apis/g{number}/v1/r{number}", f"/api/v1/namespaces/n{number}/pods/p{number}"
            for uri in uris:
                ctx = request(uri, method=("GET", f"M{number}")[number % 2])
                ctx.reactor = _Clock
                ctx.http.sentLength = 0
                count(ctx)
                for finish in ctx.finishers:
                    finish(ctx, 404)
        return len(b"".join(metrics.exposition()).splitlines()) + len(metrics.requests._known)

    first = series(0)
    assert series(2_000) == first


class _Clock:
    @staticmethod
    def seconds() -> float:
        return 0.0
