"""The flow schemas and priority levels of a new cluster: mandatory (``exempt``, ``catch-all``) and suggested.

Operators may change the suggested ones.  Upstream: apiserver ``pkg/apis/flowcontrol/bootstrap/default.go``, with its defaults.
"""

from __future__ import annotations

from kapi.machinery.tree import Object

PRIORITY_LEVELS: dict[str, Object] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    },
}
_EVERY_REQUEST = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
_SYSTEM_ACCOUNTS: Object = {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}
_LEASES = "coordination.k8s.io"


def _everything(*groups: str) -> Object:
    """A rule that matches every request of these groups."""
    return {
        "subjects": [{"kind": "Group", "group": {"name": group}} for group in groups],
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
        ],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


FLOW_SCHEMAS: dict[str, Object] = {
    "exempt": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "matchingPrecedence": 1,
        "rules": [_everything("system:masters")],
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": 10000,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [_everything("system:unauthenticated", "system:authenticated")],
    },
}


def _level(shares: int, lendable: int, queues: int, hand: int) -> Object:
    return {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": shares,
            "lendablePercent": lendable,
            "limitResponse": {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}},
        },
    }


def _resources(verbs: list[str], group: str, resources: list[str], *, cluster: bool) -> Object:
    rule: Object = {"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]}
    return {**rule, "clusterScope": True} if cluster else rule


def _group(name: str) -> Object:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Object:
    return {"kind": "User", "user": {"name": name}}


_EVERYBODY = [_group("system:unauthenticated"), _group("system:authenticated")]


def _schema(level: str, precedence: int, by: str, rule: Object) -> Object:
    spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if by:
        spec["distinguisherMethod"] = {"type": by}
    spec["rules"] = [rule]
    return spec


def _all_of(*subjects: Object) -> Object:
    """A rule that matches all requests of these subjects."""
    anything = _resources(["*"], "*", ["*"], cluster=True)
    return {"subjects": list(subjects), "resourceRules": [anything], "nonResourceRules": _EVERY_REQUEST}


SUGGESTED_PRIORITY_LEVELS: dict[str, Object] = {
    "system": _level(30, 33, 64, 6),
    "node-high": _level(40, 25, 64, 6),
    "leader-election": _level(10, 0, 16, 4),
    "workload-high": _level(40, 50, 128, 6),
    "workload-low": _level(100, 90, 128, 6),
    "global-default": _level(20, 50, 128, 6),
}

SUGGESTED_FLOW_SCHEMAS: dict[str, Object] = {
    "system-nodes": _schema("system", 500, "ByUser", _all_of(_group("system:nodes"))),
    "system-node-high": _schema(
        "node-high",
        400,
        "ByUser",
        {
            "subjects": [_group("system:nodes")],
            "resourceRules": [
                _resources(["*"], "", ["nodes", "nodes/status"], cluster=True),
                _resources(["*"], _LEASES, ["leases"], cluster=False),
            ],
        },
    ),
    "probes": _schema(
        "exempt",
        2,
        "",
        {
            "subjects": _EVERYBODY,
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
        },
    ),
    "system-leader-election": _schema(
        "leader-election",
        100,
        "ByUser",
        {
            "subjects": [_user("system:kube-controller-manager"), _user("system:kube-scheduler"), _SYSTEM_ACCOUNTS],
            "resourceRules": [_resources(["get", "create", "update"], _LEASES, ["leases"], cluster=False)],
        },
    ),
    "kube-controller-manager": _schema(
        "workload-high", 800, "ByNamespace", _all_of(_user("system:kube-controller-manager"))
    ),
    "kube-scheduler": _schema("workload-high", 800, "ByNamespace", _all_of(_user("system:kube-scheduler"))),
    "kube-system-service-accounts": _schema("workload-high", 900, "ByNamespace", _all_of(_SYSTEM_ACCOUNTS)),
    "service-accounts": _schema("workload-low", 9000, "ByUser", _all_of(_group("system:serviceaccounts"))),
    "global-default": _schema("global-default", 9900, "ByUser", _all_of(*_EVERYBODY)),
}
