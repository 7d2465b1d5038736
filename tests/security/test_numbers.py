"""Numbers that are none, in every place where a client may write one: an answer of 4xx, never a panic."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.security.attacker import APPLY, JSON_PATCH, MERGE, Attacker

ODD = ["²", "٣", "１２", "1_0", " 1", "0x10", "1e3", "٨٠", "9" * 30, "9" * 5000, "-" + "9" * 5000]
MAPS = "/api/v1/namespaces/default/configmaps"


def token(**fields: Any) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", **fields})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds", "resourceVersion"])
@pytest.mark.parametrize("text", ODD)
def test_options_of_lists(admin: Attacker, name: str, text: str) -> None:
    for verb in ("", "&watch=1"):
        answer = admin.ask("GET", f"{MAPS}?{name}={quote(text)}{verb}")
        expected = {400, 500} if name == "resourceVersion" and verb else {400}  # upstream's watch answers 500 there
        assert answer.status in expected, (text, answer)
        assert "strconv.Parse" in answer.message


@pytest.mark.parametrize("text", ODD)
def test_options_of_other_requests(admin: Attacker, text: str) -> None:
    for method, path in (
        ("GET", f"{MAPS}/nope?resourceVersion={quote(text)}"),
        ("DELETE", f"{MAPS}/nope?gracePeriodSeconds={quote(text)}"),
        ("DELETE", f"{MAPS}?timeoutSeconds={quote(text)}&fieldSelector=metadata.name%3Dnope"),
        ("GET", f"{MAPS}?labelSelector={quote('a>' + text)}"),
        ("GET", f"/api/v1/namespaces/default/pods/p:{quote(text)}/proxy/x"),
        ("GET", f"/api/v1/namespaces/default/services/s:{quote(text)}/proxy/x"),
        ("GET", f"/api/v1/nodes/n:{quote(text)}/proxy/x"),
        ("GET", f"/api/v1/namespaces/default/pods/p/log?tailLines={quote(text)}"),
        ("POST", f"/api/v1/namespaces/default/pods/p/portforward?ports={quote(text)}"),
    ):
        answer = admin.ask(method, path, headers={"Connection": "Upgrade", "Upgrade": "x"} if "forward" in path else {})
        assert answer.status in (400, 404, 500, 503) or "labelSelector" in path, (path, answer)
        assert b"panic" not in answer.body and b"Internal error" not in answer.body, (path, answer)


@pytest.mark.parametrize("text", ODD)
def test_timeouts_of_requests(admin: Attacker, text: str) -> None:
    for suffix in ("", "s"):
        answer = admin.ask("GET", f"{MAPS}?timeout={quote(text + suffix)}")
        assert answer.status in (200, 400), answer
        assert suffix == "s" or answer.status == 400


@pytest.mark.parametrize(
    "fields",
    [
        {"rv": 1, "start": 5}, {"rv": 1, "start": ["a"]}, {"rv": 1, "start": {}}, {"rv": 1, "start": True},
        {"rv": "1", "start": "a"}, {"rv": 1.5, "start": "a"}, {"rv": True, "start": "a"}, {"rv": [], "start": "a"},
        {"rv": 1 << 64, "start": "a"}, {"rv": 1}, {"start": "a"}, {"rv": 1, "start": None}, {"rv": 1, "start": "../a"},
        {"rv": 0, "start": "a"}, {"v": 5}, {"v": None},
    ],
)  # fmt: skip
def test_continue_tokens_that_were_written_by_somebody_else(admin: Attacker, fields: Any) -> None:
    answer = admin.ask("GET", f"{MAPS}?limit=1&continue={token(**fields)}")
    assert answer.status == 400, answer
    assert "invalid continue token" in answer.message


@pytest.mark.parametrize("raw", [b"[]", b"5", b"null", b'"a"', b"{", b"", b"[" * 100_000, b"\xff"])
def test_continue_tokens_that_are_none(admin: Attacker, raw: bytes) -> None:
    text = base64.urlsafe_b64encode(raw[:20_000]).decode().rstrip("=") or "_"
    answer = admin.ask("GET", f"{MAPS}?limit=1&continue={text}")
    assert answer.status == 400, answer


@pytest.mark.parametrize("text", ODD)
def test_versions_in_objects(admin: Attacker, namespace: str, text: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = admin.ask("POST", path, {"metadata": {"name": "a", "resourceVersion": text}})
    assert made.status == 201, "upstream passes over a version that it cannot read"
    changed = admin.ask("PUT", f"{path}/a", {"metadata": {"name": "a", "resourceVersion": text}})
    assert changed.status in (409, 500), changed
    assert "strconv.ParseUint" in changed.message
    conditions = {"preconditions": {"resourceVersion": text}}
    assert admin.ask("DELETE", f"{path}/a", conditions).status == 409


@pytest.mark.parametrize("text", ODD)
def test_fields_with_numbers_in_text(admin: Attacker, namespace: str, text: str) -> None:
    """Quantities, ports by percentage, addresses, costs, schedules, patches: invalid, or stored as upstream would."""
    base, networking = f"/api/v1/namespaces/{namespace}", f"/apis/networking.k8s.io/v1/namespaces/{namespace}"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": text, "memory": text + "Ki"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    cost = {"metadata": {"name": "c", "annotations": {"controller.kubernetes.io/pod-deletion-cost": text}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": template,
            "strategy": {"rollingUpdate": {"maxSurge": text + "%", "maxUnavailable": text}},
        },
    }
    job = {"spec": {"template": {"spec": {**template["spec"], "restartPolicy": "Never"}}}}
    expression = {"key": "a", "operator": "Gt", "values": [text]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    placed = {"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": affinity}}
    cron = {"schedule": f"{text} * * * *", "jobTemplate": job}
    service, peer = {"ports": [{"port": 1}]}, {"ipBlock": {"cidr": f"10.0.0.0/{text}"}}
    valid = (
        201 if text in (" 1", "0x10", "1e3") or "9" in text else 0
    )  # some of these are quantities, or no rule looks at them
    for path, name, spec in (
        (f"{base}/pods", pod["metadata"], pod["spec"]),
        (f"{base}/pods", cost["metadata"], template["spec"]),
        (f"{base}/pods", {"name": "q"}, placed["spec"]),
        (f"/apis/apps/v1/namespaces/{namespace}/deployments", {"name": "d"}, deployment["spec"]),
        (f"/apis/batch/v1/namespaces/{namespace}/cronjobs", {"name": "c"}, cron),
        (f"{base}/services", {"name": "s"}, {**service, "clusterIP": f"10.0.0.{text}"}),
        (f"{base}/services", {"name": "s"}, {**service, "externalIPs": [f"10.{text}.0.1"]}),
        (f"{networking}/networkpolicies", {"name": "n"}, {"podSelector": {}, "ingress": [{"from": [peer]}]}),
    ):
        answer = admin.ask("POST", path, {"metadata": name, "spec": spec})
        assert answer.status in (400, 422, valid if path.endswith(("/pods", "/cronjobs")) else 0) or name == {
            "name": "q"
        }, (
            path,
            answer,
        )
        assert b"panic" not in answer.body, (path, answer)
    admin.create(f"{base}/configmaps", {"metadata": {"name": "m"}, "data": {"a": "b"}})
    patch = [
        {"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]},
        {"op": "remove", "path": f"/metadata/finalizers/{text}"},
    ]
    assert admin.ask("PATCH", f"{base}/configmaps/m", patch, JSON_PATCH).status == 422
    fields = {"f:metadata": {f"i:{text}": {}}}
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    for body, kind in (({"metadata": {"managedFields": [entry]}}, MERGE),):
        assert admin.ask("PATCH", f"{base}/configmaps/m", body, kind).status in (200, 400, 422)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "managedFields": [entry]}}
    assert admin.ask("PATCH", f"{base}/configmaps/m?fieldManager=x", applied, APPLY).status in (400, 409)


@pytest.mark.parametrize("address", ["010.0.0.1", "10.0.0.01", "0x0a.0.0.1", "10.0.1", "167772161", "10.0.0.1\u0660"])
def test_addresses_with_leading_zeros_or_without_octets(admin: Attacker, namespace: str, address: str) -> None:
    """CVE-2021-29923: what one parser takes for octal another must not take for decimal."""
    base = f"/api/v1/namespaces/{namespace}"
    subsets = [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]
    answer = admin.ask("POST", f"{base}/endpoints", {"metadata": {"name": "e"}, "subsets": subsets})
    assert answer.status == 422, answer
    slice_ = {"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [{"addresses": [address]}]}
    answer = admin.ask("POST", f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", slice_)
    assert answer.status == 422, answer


def test_a_watch_that_is_to_last_for_ever_does_not_stop_the_server(admin: Attacker) -> None:
    head = admin.head(f"{MAPS}?watch=1&timeoutSeconds={(1 << 63) - 1}")
    with admin.connect() as connection:
        connection.sendall(head)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert admin.ask("GET", "/readyz").status == 200
