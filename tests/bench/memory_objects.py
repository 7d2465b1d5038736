"""What bursts for ``--only memory`` make and delete: an object of each kind by its name."""

from __future__ import annotations

import json
from typing import Any

from tests.bench.cases import pod


def a_pod(name: str, number: int) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(pod(name))
    return made


def namespace(name: str, number: int) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def event(name: str, number: int) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": name}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": name, "message": "m" * 500, "type": "Normal"}


def service(name: str, number: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}


def role(name: str, number: int) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": [f"things{number}-{rule}"], "verbs": ["get"]} for rule in range(20)]
    return {"metadata": {"name": name}, "rules": rules}


def binding(name: str, number: int) -> dict[str, Any]:
    subjects = [
        {"kind": "User", "name": f"{name}-{user}", "apiGroup": "rbac.authorization.k8s.io"} for user in range(20)
    ]
    role = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
    return {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}


def policy(name: str, number: int) -> dict[str, Any]:
    rules = [{"apiGroups": [f"{name}.example.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    checks = [{"expression": f"object.metadata.name != '{name}-{check}'"} for check in range(10)]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": checks}
    return {"metadata": {"name": name}, "spec": spec}


def webhook(name: str, number: int) -> dict[str, Any]:
    rule = {"apiGroups": [name], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    hook = {
        "name": f"{name}.example.com", "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:9/{name}"},
        "matchConditions": [{"name": "a", "expression": f"object.metadata.name != '{name}'"}],
    }  # fmt: skip
    return {"metadata": {"name": name}, "webhooks": [hook]}


def flow_schema(name: str, number: int) -> dict[str, Any]:
    rule = {
        "subjects": [{"kind": "User", "user": {"name": name}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
    }
    level = {"name": "workload-low"}
    return {"metadata": {"name": name}, "spec": {"priorityLevelConfiguration": level, "rules": [rule]}}


def api_service(name: str, number: int) -> dict[str, Any]:
    service = {"namespace": "default", "name": name}
    spec = {
        "group": f"{name}.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "insecureSkipTLSVerify": True, "service": service,
    }  # fmt: skip
    return {"metadata": {"name": f"v1.{name}.example.com"}, "spec": spec}


def quota(name: str, number: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"hard": {f"count/things.{name}.example.com": "10"}}}
