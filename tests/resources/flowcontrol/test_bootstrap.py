"""The flow schemas and priority levels of a new cluster, as kube-apiserver makes them."""

from __future__ import annotations

from kapi.machinery.tree import Object
from kapi.resources.flowcontrol.bootstrap import (
    FLOW_SCHEMAS,
    PRIORITY_LEVELS,
    SUGGESTED_FLOW_SCHEMAS,
    SUGGESTED_PRIORITY_LEVELS,
)

ALL = "* */* cluster, * path *"
EVERYBODY = "system:unauthenticated system:authenticated"
LEASES = "coordination.k8s.io/leases"
#: level -> type, shares, percent to lend; queues, size of a hand and length of a queue
LEVELS = {
    "exempt": ("Exempt", 0, 0),
    "catch-all": ("Limited", 5, 0),
    "system": ("Limited", 30, 33, 64, 6, 50),
    "node-high": ("Limited", 40, 25, 64, 6, 50),
    "leader-election": ("Limited", 10, 0, 16, 4, 50),
    "workload-high": ("Limited", 40, 50, 128, 6, 50),
    "workload-low": ("Limited", 100, 90, 128, 6, 50),
    "global-default": ("Limited", 20, 50, 128, 6, 50),
}
#: flow schema -> level, precedence, what tells flows apart, subjects, requests
SCHEMAS = {
    "exempt": ("exempt", 1, "", "system:masters", ALL),
    "probes": ("exempt", 2, "", EVERYBODY, "get path /healthz /readyz /livez"),
    "system-leader-election": (
        "leader-election", 100, "ByUser",
        "system:kube-controller-manager system:kube-scheduler kube-system/*", f"get create update {LEASES}",
    ),
    "system-node-high": ("node-high", 400, "ByUser", "system:nodes", f"* /nodes,nodes/status cluster, * {LEASES}"),
    "system-nodes": ("system", 500, "ByUser", "system:nodes", ALL),
    "kube-controller-manager": ("workload-high", 800, "ByNamespace", "system:kube-controller-manager", ALL),
    "kube-scheduler": ("workload-high", 800, "ByNamespace", "system:kube-scheduler", ALL),
    "kube-system-service-accounts": ("workload-high", 900, "ByNamespace", "kube-system/*", ALL),
    "service-accounts": ("workload-low", 9000, "ByUser", "system:serviceaccounts", ALL),
    "global-default": ("global-default", 9900, "ByUser", EVERYBODY, ALL),
    "catch-all": ("catch-all", 10000, "ByUser", EVERYBODY, ALL),
}  # fmt: skip


def level(spec: Object) -> tuple[object, ...]:
    ((_, part),) = ((name, part) for name, part in spec.items() if name != "type")
    queuing = part.get("limitResponse", {}).get("queuing", {})
    numbers = (queuing[name] for name in ("queues", "handSize", "queueLengthLimit") if queuing)
    return spec["type"], part["nominalConcurrencyShares"], part["lendablePercent"], *numbers


def subject(one: Object) -> str:
    if one["kind"] == "ServiceAccount":
        return "{namespace}/{name}".format(**one["serviceAccount"])
    return str(one[one["kind"].lower()]["name"])


def requests(rule: Object) -> list[str]:
    found = []
    for each in rule.get("resourceRules", []):
        assert each["namespaces"] == ["*"]
        place = f"{','.join(each['apiGroups'])}/{','.join(each['resources'])}"
        found.append(" ".join([*each["verbs"], place, *(["cluster"] if each.get("clusterScope") else [])]))
    return found + [
        " ".join([*each["verbs"], "path", *each["nonResourceURLs"]]) for each in rule.get("nonResourceRules", [])
    ]


def schema(spec: Object) -> tuple[object, ...]:
    (rule,) = spec["rules"]
    subjects = " ".join(map(subject, rule["subjects"]))
    method = spec.get("distinguisherMethod", {}).get("type", "")
    level = spec["priorityLevelConfiguration"]["name"]
    return level, spec["matchingPrecedence"], method, subjects, ", ".join(requests(rule))


def test_priority_levels() -> None:
    found = {**PRIORITY_LEVELS, **SUGGESTED_PRIORITY_LEVELS}
    assert {name: level(spec) for name, spec in found.items()} == LEVELS
    assert set(PRIORITY_LEVELS) == {"exempt", "catch-all"}


def test_requests_that_are_limited_without_queues_are_refused() -> None:
    assert PRIORITY_LEVELS["catch-all"]["limited"]["limitResponse"] == {"type": "Reject"}


def test_flow_schemas() -> None:
    found = {**FLOW_SCHEMAS, **SUGGESTED_FLOW_SCHEMAS}
    assert {name: schema(spec) for name, spec in found.items()} == SCHEMAS
    assert set(FLOW_SCHEMAS) == {"exempt", "catch-all"}
