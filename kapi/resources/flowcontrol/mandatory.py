"""The specs that the flow schemas and priority levels named ``exempt`` and ``catch-all`` must have.

Upstream: apiserver ``pkg/apis/flowcontrol/bootstrap/default.go`` (mandatory configuration), with its defaults.
"""

from __future__ import annotations

from kapi.machinery.tree import Object


def _everything(*groups: str) -> Object:
    """A rule that matches every request of these groups."""
    return {
        "subjects": [{"kind": "Group", "group": {"name": group}} for group in groups],
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]},
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

PRIORITY_LEVELS: dict[str, Object] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    },
}
