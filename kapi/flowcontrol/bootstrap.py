"""The flow schemas and priority levels that every server has (upstream: ``apis/flowcontrol/bootstrap/default.go``; KEP-1040).

The mandatory ones are kept as they are here whatever anybody does; the suggested ones are made when missing and follow this
file as long as their annotation says so.
"""

from __future__ import annotations

from typing import Any

from kapi.resources.flowcontrol.mandatory import FLOW_SCHEMAS, PRIORITY_LEVELS

Object = dict[str, Any]

GROUP = "flowcontrol.apiserver.k8s.io"
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
_VERSION = f"{GROUP}/v1"
_KUBE_SYSTEM_ACCOUNTS: Object = {
    "kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"},
}  # fmt: skip


def _group(name: str) -> Object:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Object:
    return {"kind": "User", "user": {"name": name}}


def _resources(verbs: list[str], group: str, resources: list[str], cluster: bool) -> Object:
    rule: Object = {"verbs": verbs, "apiGroups": [group], "resources": resources}
    if cluster:
        rule["clusterScope"] = True
    return {**rule, "namespaces": ["*"]}


def _anything(*subjects: Object) -> Object:
    return {
        "subjects": list(subjects),
        "resourceRules": [_resources(["*"], "*", ["*"], True)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


def _schema(level: str, precedence: int, method: str, rule: Object) -> Object:
    spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return {**spec, "rules": [rule]}


def _level(shares: int, lendable: int, queues: int, hand: int) -> Object:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    return {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": shares,
            "limitResponse": {"type": "Queue", "queuing": queuing},
            "lendablePercent": lendable,
        },
    }


_EVERYBODY = (_group("system:unauthenticated"), _group("system:authenticated"))

SUGGESTED_LEVELS: dict[str, Object] = {
    "system": _level(30, 33, 64, 6),
    "node-high": _level(40, 25, 64, 6),
    "leader-election": _level(10, 0, 16, 4),
    "workload-high": _level(40, 50, 128, 6),
    "workload-low": _level(100, 90, 128, 6),
    "global-default": _level(20, 50, 128, 6),
}

SUGGESTED_SCHEMAS: dict[str, Object] = {
    "system-nodes": _schema("system", 500, "ByUser", _anything(_group("system:nodes"))),
    "system-node-high": _schema(
        "node-high", 400, "ByUser", {
            "subjects": [_group("system:nodes")],
            "resourceRules": [
                _resources(["*"], "", ["nodes", "nodes/status"], True),
                _resources(["*"], "coordination.k8s.io", ["leases"], False),
            ],
        },
    ),
    "probes": _schema(
        "exempt", 2, "", {
            "subjects": list(_EVERYBODY),
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
        },
    ),
    "system-leader-election": _schema(
        "leader-election", 100, "ByUser", {
            "subjects": [
                _user("system:kube-controller-manager"), _user("system:kube-scheduler"), _KUBE_SYSTEM_ACCOUNTS,
            ],
            "resourceRules": [_resources(["get", "create", "update"], "coordination.k8s.io", ["leases"], False)],
        },
    ),
    "kube-controller-manager": _schema(
        "workload-high", 800, "ByNamespace", _anything(_user("system:kube-controller-manager"))
    ),
    "kube-scheduler": _schema("workload-high", 800, "ByNamespace", _anything(_user("system:kube-scheduler"))),
    "kube-system-service-accounts": _schema("workload-high", 900, "ByNamespace", _anything(_KUBE_SYSTEM_ACCOUNTS)),
    "service-accounts": _schema("workload-low", 9000, "ByUser", _anything(_group("system:serviceaccounts"))),
    "global-default": _schema("global-default", 9900, "ByUser", _anything(*_EVERYBODY)),
}  # fmt: skip


def _object(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "annotations": {AUTO_UPDATE: "true"}}
    return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def levels(*, mandatory: bool) -> list[Object]:
    """PriorityLevelConfiguration objects."""
    chosen = PRIORITY_LEVELS if mandatory else SUGGESTED_LEVELS
    return [_object("PriorityLevelConfiguration", name, spec) for name, spec in chosen.items()]


def schemas(*, mandatory: bool) -> list[Object]:
    """FlowSchema objects."""
    chosen = FLOW_SCHEMAS if mandatory else SUGGESTED_SCHEMAS
    return [_object("FlowSchema", name, spec) for name, spec in chosen.items()]
