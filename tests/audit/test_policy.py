"""Audit policies: which rule decides, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kapi.audit.policy import PolicyError, load_policy, read_policy
from kapi.codecs.yaml_reading import MAX_NODES
from kapi.request.user import UserInfo
from tests.filters.requests import request

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "users": ["system:kube-proxy"], "verbs": ["watch"]},
        {"level": "None", "userGroups": ["system:nodes"], "resources": [{"group": "", "resources": ["nodes/status"]}]},
        {"level": "None", "nonResourceURLs": ["/healthz*", "/version"]},
        {"level": "Metadata", "resources": [{"resources": ["secrets", "configmaps"]}], "omitStages": ["Panic"]},
        {"level": "Request", "resources": [{"group": "apps", "resources": ["*/scale"]}], "namespaces": ["kube-system"]},
        {
            "level": "Request",
            "resources": [{"resources": ["pods/*"], "resourceNames": ["p"]}],
            "omitManagedFields": False,
        },
        {"level": "RequestResponse", "resources": [{"group": "*", "resources": ["deployments"]}, {"group": "batch"}]},
        {"level": "Metadata", "verbs": ["create"]},
    ],
}


@pytest.mark.parametrize(
    ("uri", "method", "user", "level"),
    [
        ("/api/v1/pods?watch=1", "GET", UserInfo("system:kube-proxy"), "None"),
        ("/api/v1/nodes/n/status", "PUT", UserInfo("n", groups=("x", "system:nodes")), "None"),
        ("/api/v1/nodes/n/status", "PUT", UserInfo("other"), "None"),
        ("/healthz/ping", "GET", UserInfo("u"), "None"),
        ("/version", "POST", UserInfo("u"), "None"),
        ("/versions", "POST", UserInfo("u"), "None"),
        ("/api/v1/namespaces/x/secrets/s", "GET", UserInfo("u"), "Metadata"),
        ("/apis/example.com/v1/secrets/s", "GET", UserInfo("u"), "None"),
        ("/apis/apps/v1/namespaces/kube-system/deployments/d/scale", "GET", UserInfo("u"), "Request"),
        ("/apis/apps/v1/namespaces/other/deployments/d/scale", "GET", UserInfo("u"), "None"),
        ("/api/v1/namespaces/x/pods/p/log", "GET", UserInfo("u"), "Request"),
        ("/api/v1/namespaces/x/pods/p", "GET", UserInfo("u"), "Request"),
        ("/api/v1/namespaces/x/pods/q/log", "GET", UserInfo("u"), "None"),
        ("/apis/apps/v1/namespaces/x/deployments/d", "GET", UserInfo("u"), "RequestResponse"),
        ("/apis/batch/v1/namespaces/x/jobs", "GET", UserInfo("u"), "RequestResponse"),
        ("/api/v1/namespaces/x/services", "POST", UserInfo("u"), "Metadata"),
        ("/api/v1/namespaces/x/services", "GET", UserInfo("u"), "None"),
        ("/api/v1/namespaces/x/services", "GET", None, "None"),
    ],
)
def test_the_first_rule_that_matches_decides(uri: str, method: str, user: UserInfo | None, level: str) -> None:
    policy, _ = read_policy(POLICY)
    info = request(uri, method).info
    assert info is not None
    assert policy.evaluate(info, user).level_name == level


def test_stages_and_managed_fields_of_rule_and_policy() -> None:
    policy, warnings = read_policy(POLICY)
    assert warnings == []
    configs = [rule.config for rule in policy.rules]
    assert configs[3].omit_stages == {"RequestReceived", "Panic"}
    assert configs[0].omit_stages == {"RequestReceived"}
    assert (configs[3].omit_managed_fields, configs[5].omit_managed_fields) == (True, False)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "Other"}, "unknown group version field audit.k8s.io/v1, Kind=Other in policy"),
        ({"apiVersion": "audit.k8s.io/v1beta1"}, "unknown group version field"),
        ({"rules": []}, "loaded illegal policy with 0 rules"),
        ({"rules": [{}]}, r"rules\[0\].level: Required value"),
        (
            {"rules": [{"level": "All"}]},
            r'rules\[0\].level: Unsupported value: "All": supported values: "None", "Metadata"',
        ),
        (
            {"omitStages": ["Never"]},
            r'omitStages\[0\]: Invalid value: "Never": allowed stages are RequestReceived,Resp',
        ),
        (
            {"rules": [{"level": "None", "nonResourceURLs": ["logs"]}]},
            r'rules\[0\].nonResourceURLs\[0\]: Invalid value: "logs": non-resource URL rules must begin with',
        ),
        ({"rules": [{"level": "None", "nonResourceURLs": ["/a*b"]}]}, "must be the final character of the rule"),
        (
            {"rules": [{"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["x"]}]},
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
        ({"rules": [{"level": "None", "resources": [{"group": "rbac/v1"}]}]}, "lowercase RFC 1123 subdomain"),
        ({"rules": [{"level": "None", "resources": [{"resourceNames": ["x"]}]}]}, "requires at least one resource"),
        ({"rules": [{"level": "None", "users": "me"}]}, r"rules\[0\].users: must be a list"),
        ({"rules": [{"level": "None", "users": [1]}]}, r"rules\[0\].users\[0\]: must be a string"),
        ({"rules": [{"level": ["None"]}]}, r"rules\[0\].level: must be a string"),
        ({"rules": [{"level": "None", "resources": [{"group": 1}]}]}, r"resources\[0\].group: must be a string"),
        ({"omitManagedFields": "no"}, "omitManagedFields: must be a bool"),
        ({"rules": "all"}, "rules: must be a list"),
    ],
)
def test_policies_that_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        read_policy({**POLICY, **change})


def test_a_file_with_unknown_fields_is_read_and_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\ncolor: red\nrules:\n- level: Metadata\n  verb: [get]\n")
    policy, warnings = load_policy(str(file))
    assert warnings == ['unknown field "color"', 'unknown field "rules[0].verb"']
    assert len(policy.rules) == 1


def test_a_file_may_have_more_nodes_than_a_body(tmp_path: Path) -> None:
    """It is read at the start, when nobody waits; upstream's reader has no such limit."""
    file = tmp_path / "policy.yaml"
    users = "\n".join(f"  - user-{number}" for number in range(MAX_NODES))
    file.write_text(f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  users:\n{users}\n")
    policy, warnings = load_policy(str(file))
    assert len(policy.rules[0].users) == MAX_NODES and not warnings


@pytest.mark.parametrize(("text", "why"), [(None, "No such file"), ("a: [", "failed decoding"), ("x", "unknown group")])
def test_files_that_cannot_be_read(tmp_path: Path, text: str | None, why: str) -> None:
    file = tmp_path / "policy.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PolicyError, match=why):
        load_policy(str(file))
